// Moves a project to another server while 8 writers insert into it through the API: how long the move takes, how long a write
// waits, and whether anything failed or was lost. By a dump, and by logical replication, with one and with three API processes.
// npm run bench -- moves [--quick] [--repeats 5] [--size 88] [--write]
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { median, startService, stop } from './load.mjs';
import { readOptions } from './options.mjs';
import { report } from './report.mjs';

const { repeats, size, write } = readOptions({
  repeats: { quick: 1, full: 5 },
  size: { quick: 20, full: 88, what: 'MB of the project' },
});
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-moves-'));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
/** With the primary key. */
const rowsPerMb = 4500;
const maxPauseMs = 120_000;

async function startServer(name) {
  const { startEmbedded } = await import('../packages/server/dist/servers/embedded/embedded.js');
  const dataFolder = path.join(folder, name);
  mkdirSync(dataFolder);
  return startEmbedded({
    dataFolder,
    masterKey: randomBytes(32),
    connections: 100,
    reserveBytes: 0,
    say: () => {},
    onEvent: () => {},
  });
}

const urlOf = ({ user, password, host, port, database }) =>
  `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`;

async function fill(project) {
  await project.query('create table ledger (id bigint primary key)');
  await project.query('create table bulk (id bigint primary key, v text, w bytea)');
  const random = Array.from({ length: 8 }, () => 'md5(random()::text)').join(' || ');
  await project.query(
    `insert into bulk select n, md5(n::text), decode(${random}, 'hex') from generate_series(1, ${size * rowsPerMb}) as n`,
  );
}

/** Each inserts one row after the other. */
function startWriters(project, count) {
  const acknowledged = [];
  const failures = [];
  const requests = [];
  let isOver = false;
  const writer = async (n) => {
    for (let turn = 0; !isOver; turn++) {
      const id = n * 10_000_000 + turn;
      const from = performance.now();
      try {
        await project.query('insert into ledger (id) values ($1)', { params: [id] });
        acknowledged.push(id);
      } catch (error) {
        failures.push(String(error));
      }
      requests.push([from, performance.now()]);
    }
  };
  const work = Promise.all(Array.from({ length: count }, (_, n) => writer(n + 1)));
  return {
    slowest: (since) => Math.max(...requests.filter(([, to]) => to >= since).map(([from, to]) => to - from)),
    stop: async () => {
      isOver = true;
      await work;
      return { acknowledged, failures };
    },
  };
}

async function measure(service, project, server, mode) {
  const writers = startWriters(project, 8);
  await sleep(2_000);
  const since = performance.now();
  const body = { server, mode, max_pause_ms: maxPauseMs };
  let { job } = await service.asAccount('POST', `/projects/${project.slug}/move`, body);
  while (job.status === 'running') {
    await sleep(100);
    ({ job } = await service.asAccount('GET', `/jobs/${job.id}`));
  }
  if (job.status !== 'done') throw new Error(JSON.stringify(job.error));
  const ms = performance.now() - since;
  await sleep(1_000);
  const pause = writers.slowest(since);
  const { acknowledged, failures } = await writers.stop();
  const { rows } = await project.query('select id from ledger');
  const stored = new Set(rows.map(({ id }) => id));
  const lost = acknowledged.filter((id) => !stored.has(id)).length;
  await project.query('truncate ledger');
  if (job.result.mode !== mode) throw new Error(JSON.stringify(job.result));
  return { ms, pause, held: job.result.pause_ms, failed: failures.length, lost };
}

async function run(name, mode, processes, goal) {
  const place = path.join(folder, name.replaceAll(/\W+/g, '-'));
  mkdirSync(place);
  const [first, second] = [
    await startServer(`${mode}-${processes}-1`),
    await startServer(`${mode}-${processes}-2`),
  ];
  const service = await startService(place, undefined, { ROWHOUSE_WORKERS: String(processes) });
  try {
    // Before the others are added: it begins on the service's own.
    const project = await service.makeProject('Moved');
    for (const [index, { address }] of [first, second].entries())
      await service.asAccount('POST', '/servers', { name: `s${index + 1}`, address: urlOf(address) });
    await fill(project);
    // All processes know the servers after a second, and sizes are measured every few seconds.
    await sleep(6_000);
    const turns = [];
    // Between the two further servers. The first turn comes from the service's own and is not counted.
    for (let turn = -1; turn < repeats; turn++) {
      const figures = await measure(service, project, turn % 2 === 0 ? 's2' : 's1', mode);
      if (turn >= 0) turns.push(figures);
    }
    const of = (part) => {
      const list = turns.map((turn) => turn[part]);
      return `${median(list).toFixed(0)} (${Math.max(...list).toFixed(0)})`;
    };
    const sum = (part) => String(turns.reduce((total, turn) => total + turn[part], 0));
    return [name, String(size), of('ms'), of('held'), of('pause'), sum('failed'), sum('lost'), goal];
  } finally {
    await stop(service);
    await first.stop();
    await second.stop();
  }
}

const rows = [];
try {
  rows.push(await run('dump, 1 process', 'dump', 1, '-'));
  rows.push(await run('online, 1 process', 'online', 1, 'pause ≤ 150'));
  rows.push(await run('online, 3 processes', 'online', 3, 'pause ≤ 500'));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
report(
  'moves',
  ['median (slowest)', 'MB', 'move, ms', 'requests held, ms', 'slowest write, ms', 'failed', 'lost', 'goal'],
  rows,
  write,
  {
    notes: [
      'The slowest write is the pause as a writer sees it: from its request to its answer.',
      '8 writers insert one row at a time through the API, from before the move until a second after it.',
    ],
  },
);
