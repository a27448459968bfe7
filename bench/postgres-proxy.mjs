// What the PostgreSQL proxy costs: pgbench -S with prepared statements, 1, 8 and 32 clients, through the proxy and directly,
// without and with TLS, and through a program that only passes bytes; and the memory of an idle connection. All connections
// use TCP. Everything shares the machine, pgbench included.
// npm run bench -- postgres-proxy [--quick] [--seconds 10] [--turns 5] [--clients 1,8,32] [--scale 10] [--write]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { median, needTools, ratios, start, startService, stop, superuserUrl } from './load.mjs';
import { readOptions } from './options.mjs';
import { postmasterOf, residentMb, withCpuMs } from './processes.mjs';
import { perSecond, range, report } from './report.mjs';

needTools('pgbench');
const { seconds, turns, clients, scale, idle, write } = readOptions({
  seconds: { quick: 2, full: 10 },
  turns: { quick: 1, full: 5 },
  clients: {
    quick: [1, 8, 32],
    full: [1, 8, 32],
    what: 'clients of pgbench, one measurement for each number',
  },
  scale: { quick: 1, full: 10, what: "pgbench's scale: 100,000 rows each" },
  idle: { quick: 40, full: 200, what: 'idle connections whose memory is measured' },
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
let passThrough = null;
try {
  const postgres = new URL(await superuserUrl(service.data)).host;
  passThrough = await start('bench/pass-through.mjs', { PASS_TO: postgres }, /^port \d+$/m);
  const proxied = service.databaseUrl;
  const passed = `127.0.0.1:${/\d+/.exec(passThrough.output)[0]}`;
  const ways = {
    direct: { url: urlAt(postgres), pid: null },
    'bytes only': { url: urlAt(passed), pid: passThrough.child.pid },
    proxy: { url: `${proxied}?sslmode=disable`, pid: service.pid },
    'proxy, TLS': { url: `${proxied}?sslmode=require`, pid: service.pid },
  };
  pgbench(ways.direct.url, ['-i', '-q', '-s', scale]);
  for (const count of clients) {
    const results = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
    for (let turn = 0; turn < turns; turn++) {
      for (const [way, to] of Object.entries(ways)) results[way].push(measure(to, count));
    }
    for (const way of Object.keys(ways)) rows.push(rowOf(way, count, results));
  }
  idleKb = await memoryOfIdle();
} finally {
  if (passThrough) await stop(passThrough);
  await stop(service);
  rmSync(folder, { recursive: true, force: true });
}
report(
  'postgres-proxy',
  ['way', 'clients', 'statements/s', 'min–max', '× direct', 'min–max', 'added µs', 'CPU µs', 'goal'],
  rows,
  write,
  {
    notes: [
      'pgbench -S -M prepared. pgbench, the proxy and PostgreSQL share the cores, so with many clients the proxy takes processor time from the others.',
      '× direct: the median of the ratios of neighbouring turns. Added µs: the difference of the mean times of a statement, for one client.',
      'CPU µs: processor time of the proxy for each statement, with the background work of its process. It depends less on what else the machine does than the rates. “bytes only” is a small program in its own process that copies bytes both ways and does nothing else.',
      `An idle connection through the proxy takes ${idleKb.toFixed(0)} kB of memory in the service (${idle} connections, without TLS).`,
    ],
  },
);

function rowOf(way, count, results) {
  const ratesOf = (name) => results[name].map(({ rate }) => rate);
  const [ours, direct] = [ratesOf(way), ratesOf('direct')];
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
    isDirect ? '' : median(results[way].map(({ cpuUs }) => cpuUs)).toFixed(1),
    way === 'proxy' ? goal : '',
  ];
}

/** Statements in a second, and the CPU time of the process `pid` for each. */
function measure({ url, pid }, count) {
  const threads = Math.min(count, 2);
  const options = ['-n', '-S', '-M', 'prepared', '-c', count, '-j', threads, '-T', seconds];
  const run = () => ({ out: pgbench(url, options) });
  const { out, own } = withCpuMs(pid, postmasterOf(service.data), run);
  const statements = Number(/actually processed: (\d+)/.exec(out)?.[1]);
  const rate = Number(/tps = ([\d.]+)/.exec(out)?.[1]);
  if (!(statements > 0 && rate > 0)) throw new Error(`pgbench measured nothing:\n${out}`);
  return { rate, cpuUs: (own * 1000) / statements };
}

function pgbench(url, options) {
  return execFileSync('pgbench', [...options.map(String), url], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}

/** The same login, at another port. */
function urlAt(host) {
  const url = new URL(service.databaseUrl);
  url.host = host;
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
