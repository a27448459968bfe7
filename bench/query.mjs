// Q1 one row, Q2 50 rows, Q3 10,000 rows, Q4 an insert: ours with everything switched on, against pgbench on the same
// server and against the obvious program (fastify + pg + JSON.stringify; no key, no isolation, no reset, no limits).
// npm run bench -- query [--seconds 3] [--repeats 7] [--quick] [--write]. Needs wrk and pgbench (Debian: wrk, postgresql-client).
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { makeTables, statements } from './items.mjs';
import {
  latency,
  median,
  needTools,
  pgbench,
  queryRequest,
  ratios,
  start,
  startService,
  stop,
  superuserUrl,
  wrk,
} from './load.mjs';
import { postmasterOf, withCpuMs } from './processes.mjs';
import { perSecond, range, report } from './report.mjs';

const quick = process.argv.includes('--quick');
const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean' },
    seconds: { type: 'string', default: quick ? '1' : '3' },
    repeats: { type: 'string', default: quick ? '1' : '7' },
    connections: { type: 'string', default: '32' },
    write: { type: 'boolean', default: false },
  },
});
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-query-'));
const { seconds } = options;

/** In a second the obvious program does not even once come to an end with 32 answers of 10,000 rows. */
const connectionsOf = (statement) => (quick && statement === statements.Q3 ? '4' : options.connections);

function load(url, headers, statement) {
  const connections = connectionsOf(statement);
  return wrk(folder, url, { headers, request: queryRequest(statement), connections, seconds });
}

needTools('wrk', 'pgbench');
const ours = await startService(folder);
const rows = [];
const slowest = [];
let obvious;
try {
  const { data, databaseUrl, key, pid, query, url } = ours;
  for (const statement of makeTables) await query(statement);
  const port = String(ours.port + 1);
  obvious = await start('bench/peers/obvious/server.mjs', { DATABASE_URL: databaseUrl, PORT: port }, /ready/);
  // More connections than a project may have.
  const everybody = await superuserUrl(data, path.basename(databaseUrl));
  const sides = {
    ours: (statement) =>
      withCpuMs(pid, postmasterOf(data), () => load(`${url}/query`, `, ['x-api-key'] = '${key}'`, statement)),
    obvious: (statement) => load(`http://127.0.0.1:${port}/query`, '', statement),
    prepared: (statement) => pgbench(folder, databaseUrl, statement, { seconds }),
  };
  const middle = (list) => [...list].sort((a, b) => a.rate - b.rate)[Math.floor(list.length / 2)];
  const rates = (list) => list.map(({ rate }) => rate);
  const sum = (list) => list.reduce((total, number) => total + number, 0);
  for (const [name, statement] of Object.entries(statements)) {
    const measured = Object.fromEntries(Object.keys(sides).map((side) => [side, []]));
    // The first turn is not counted: connections are opened and code is compiled, on every side.
    for (let repeat = -1; repeat < Number(options.repeats); repeat++) {
      for (const [side, run] of Object.entries(sides)) {
        const result = run(statement);
        if (repeat >= 0) measured[side].push(result);
      }
    }
    const against = (side) => {
      const found = ratios(rates(measured.ours), rates(measured[side]));
      return [median(found).toFixed(2), range(found)];
    };
    const logged = pgbench(folder, everybody, statement, {
      seconds,
      clients: connectionsOf(statement),
      logged: true,
    });
    slowest.push([
      name,
      ...[measured.ours, measured.obvious, [logged]].flatMap((turns) => {
        const ms = [0, 1].map((n) => median(turns.map((turn) => turn.ms[n])));
        return [latency({ ms }), (ms[1] / ms[0]).toFixed(1)];
      }),
    ]);
    const cpuMs = sum(measured.ours.map(({ own }) => own));
    const requests = sum(rates(measured.ours)) * Number(seconds);
    rows.push([
      name,
      ...Object.values(measured).map((results) => perSecond(middle(results).rate)),
      ...against('obvious'),
      ...against('prepared'),
      `${Math.round((cpuMs * 1000) / requests)} µs`,
    ]);
  }
} finally {
  if (obvious) await stop(obvious);
  await stop(ours);
  rmSync(folder, { recursive: true, force: true });
}
report(
  'query',
  [
    '',
    'ours /s',
    'obvious /s',
    'pgbench prepared /s',
    '× obvious',
    'min–max',
    '× prepared',
    'min–max',
    'our CPU a request',
  ],
  rows,
  options.write,
  {
    bars: { column: '× obvious', label: 'times as many a second: ours / the obvious program', mark: 1 },
    tables: [
      {
        title: `Latency: the slowest of a hundred, ${options.connections} connections each${quick ? ' (Q3: 4)' : ''}`,
        header: ['', 'ours: p50 / p99 ms', '×', 'obvious: p50 / p99 ms', '×', 'pgbench: p50 / p99 ms', '×'],
        rows: slowest,
      },
    ],
  },
);
