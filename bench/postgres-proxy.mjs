// What the PostgreSQL proxy costs: pgbench -S with prepared statements, 1, 8 and 32 clients, through the proxy and directly,
// without and with TLS; and the memory of an idle connection. Everything shares the machine, pgbench included.
// npm run bench -- postgres-proxy [--quick] [--seconds 10] [--turns 5] [--clients 1,8,32] [--scale 10] [--write]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { median, needTools, ratios, startService, stop, superuserUrl } from './load.mjs';
import { readOptions } from './options.mjs';
import { residentMb } from './processes.mjs';
import { perSecond, range, report } from './report.mjs';

needTools('pgbench');
const { seconds, turns, clients, scale, idle, write } = readOptions({
  seconds: { quick: 2, full: 10 },
  turns: { quick: 1, full: 5 },
  clients: [1, 8, 32],
  scale: { quick: 1, full: 10 },
  idle: { quick: 40, full: 200 },
});
const idlePerProject = 20;
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-proxy-'));
const port = 10_000 + Math.floor(Math.random() * 10_000);
const service = await startService(folder, undefined, {
  ROWHOUSE_POSTGRES_PORT: String(port),
  ROWHOUSE_POSTGRES_CONNECTIONS: '400',
});
const rows = [];
let idleKb = 0;
try {
  const ways = {
    direct: await directUrl(service.databaseUrl),
    proxy: `${service.databaseUrl}?sslmode=disable`,
    'proxy, TLS': `${service.databaseUrl}?sslmode=require`,
  };
  pgbench(ways.direct, ['-i', '-q', '-s', scale]);
  for (const count of clients) {
    const rates = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
    for (let turn = 0; turn < turns; turn++) {
      for (const [way, url] of Object.entries(ways)) rates[way].push(rateOf(url, count));
    }
    for (const way of Object.keys(ways)) rows.push(rowOf(way, count, rates));
  }
  idleKb = await memoryOfIdle();
} finally {
  await stop(service);
  rmSync(folder, { recursive: true, force: true });
}
report(
  'postgres-proxy',
  ['way', 'clients', 'statements/s', 'min–max', '× direct', 'min–max', 'added µs', 'goal'],
  rows,
  write,
  {
    notes: [
      'pgbench -S -M prepared. pgbench, the proxy and PostgreSQL share the cores, so with many clients the proxy takes processor time from the others.',
      '× direct: the median of the ratios of neighbouring turns. Added µs: the difference of the mean times of a statement, for one client.',
      `An idle connection through the proxy takes ${idleKb.toFixed(0)} kB of memory in the service (${idle} connections, without TLS).`,
    ],
  },
);

function rowOf(way, count, rates) {
  const [ours, direct] = [rates[way], rates.direct];
  const added = ours.map((rate, turn) => 1e6 / rate - 1e6 / direct[turn]);
  const isDirect = way === 'direct';
  const goal = count === 1 ? '≤ 40 µs' : '≥ 0.5';
  return [
    way,
    String(count),
    perSecond(median(ours)),
    range(ours, 0),
    isDirect ? '' : median(ratios(ours, direct)).toFixed(2),
    isDirect ? '' : range(ratios(ours, direct)),
    isDirect || count > 1 ? '' : median(added).toFixed(0),
    way === 'proxy' ? goal : '',
  ];
}

function rateOf(url, count) {
  const threads = Math.min(count, 2);
  const out = pgbench(url, ['-n', '-S', '-M', 'prepared', '-c', count, '-j', threads, '-T', seconds]);
  return Number(/tps = ([\d.]+)/.exec(out)[1]);
}

function pgbench(url, options) {
  return execFileSync('pgbench', [...options.map(String), url], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}

/** The same login, at PostgreSQL's own port. */
async function directUrl(proxied) {
  const url = new URL(proxied);
  url.host = new URL(await superuserUrl(service.data)).host;
  return `${url.href}?sslmode=disable`;
}

/** In kB for each connection. The first ones pay for what all share. */
async function memoryOfIdle() {
  const open = [];
  const connect = async (count) => {
    while (open.length < count) {
      const project = await service.makeProject(`Idle ${open.length}`);
      const { connection } = await project.call('GET', '/connection');
      for (let n = 0; n < idlePerProject && open.length < count; n++) {
        const client = new pg.Client(connection.url);
        client.on('error', () => {});
        await client.connect();
        open.push(client);
      }
    }
    return residentMb(service.pid);
  };
  const before = await connect(idlePerProject);
  const after = await connect(idle);
  await Promise.all(open.map((client) => client.end()));
  return ((after - before) * 1024) / (idle - idlePerProject);
}
