// Q1 one row, Q2 50 rows, Q3 10,000 rows, Q4 an insert. Compares Rowhouse with everything enabled to pgbench on the same
// server, to the obvious program (fastify + pg + JSON.stringify; no key, no isolation, no reset, no limits), and to Node's HTTP
// server alone, which sends the bytes of one answer.
// npm run bench -- query [--seconds 3] [--repeats 7] [--quick] [--write]. Needs wrk and pgbench (Debian: wrk, postgresql-client).
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
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
import { readOptions } from './options.mjs';
import { postmasterOf, withCpuMs, withWaits } from './processes.mjs';
import { perSecond, range, report } from './report.mjs';

const options = readOptions({
  seconds: { quick: 1, full: 3 },
  repeats: { quick: 1, full: 7 },
  connections: 32,
});
const { quick, seconds } = options;
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-query-'));

/** In one second the obvious program completes none of 32 concurrent answers of 10,000 rows. */
const connectionsOf = (statement) => (quick && statement === statements.Q3 ? 4 : options.connections);

function load(url, headers, statement) {
  const connections = connectionsOf(statement);
  return wrk(folder, url, { headers, request: queryRequest(statement), connections, seconds });
}

needTools('wrk', 'pgbench');
const ours = await startService(folder);
const rows = [];
const slowest = [];
let obvious;
let bare;
try {
  const { data, databaseUrl, key, pid, query, url } = ours;
  for (const statement of makeTables) await query(statement);
  const port = String(ours.port + 1);
  obvious = await start('bench/peers/obvious/server.mjs', { DATABASE_URL: databaseUrl, PORT: port }, /ready/);
  const bareUrl = `http://127.0.0.1:${ours.port + 2}`;
  bare = await start('bench/bare-http.mjs', { PORT: String(ours.port + 2) }, /ready/);
  /** The bare server sends what we answer to this statement. */
  const prepareBare = async (statement) => {
    const params = statement.includes('$1') ? [1] : [];
    const asked = await fetch(`${url}/query`, {
      method: 'POST',
      // A kept connection would be closed while wrk and pgbench block this process.
      headers: { connection: 'close', 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify({ query: statement, params }),
    });
    await fetch(bareUrl, { method: 'PUT', headers: { connection: 'close' }, body: await asked.text() });
  };
  // As the superuser: the comparison needs more connections than a project may have.
  const unlimitedUrl = await superuserUrl(data, path.basename(databaseUrl));
  const sides = {
    ours: (statement) =>
      withWaits(pid, () =>
        withCpuMs(pid, postmasterOf(data), () =>
          load(`${url}/query`, `, ['x-api-key'] = '${key}'`, statement),
        ),
      ),
    obvious: (statement) => load(`http://127.0.0.1:${port}/query`, '', statement),
    prepared: (statement) => pgbench(folder, databaseUrl, statement, { seconds }),
    bare: (statement) => load(bareUrl, '', statement),
  };
  const middle = (list) => [...list].sort((a, b) => a.rate - b.rate)[Math.floor(list.length / 2)];
  const rates = (list) => list.map(({ rate }) => rate);
  const percent = (part) => `${(part * 100).toFixed(0)} %`;
  const sum = (list) => list.reduce((total, number) => total + number, 0);
  for (const [name, statement] of Object.entries(statements)) {
    await prepareBare(statement);
    const measured = Object.fromEntries(Object.keys(sides).map((side) => [side, []]));
    // The first turn is not counted: it opens connections and compiles code, on every side.
    for (let repeat = -1; repeat < options.repeats; repeat++) {
      for (const [side, run] of Object.entries(sides)) {
        const result = run(statement);
        if (repeat >= 0) measured[side].push(result);
      }
    }
    const against = (side) => {
      const found = ratios(rates(measured.ours), rates(measured[side]));
      return [median(found).toFixed(2), range(found)];
    };
    const logged = pgbench(folder, unlimitedUrl, statement, {
      // pgbench's duration includes opening its connections, which takes seconds on a busy machine.
      seconds: seconds + 2,
      clients: connectionsOf(statement),
      logged: true,
    });
    slowest.push([
      name,
      ...[measured.ours, measured.obvious, [logged]].flatMap((turns) => {
        const ms = [0, 1].map((n) => median(turns.map((turn) => turn.ms[n])));
        return [latency({ ms }), (ms[1] / ms[0]).toFixed(1)];
      }),
      ...['waited', 'stolen'].map((part) => percent(median(measured.ours.map((turn) => turn[part])))),
    ]);
    const cpuMs = sum(measured.ours.map(({ own }) => own));
    const requests = sum(rates(measured.ours)) * seconds;
    rows.push([
      name,
      ...Object.values(measured).map((results) => perSecond(middle(results).rate)),
      ...against('obvious'),
      ...against('prepared'),
      against('bare')[0],
      `${Math.round((cpuMs * 1000) / requests)} µs`,
    ]);
  }
} finally {
  if (bare) await stop(bare);
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
    'Node’s HTTP server alone /s',
    '× obvious',
    'min–max',
    '× prepared',
    'min–max',
    '× HTTP alone',
    'our CPU per request',
  ],
  rows,
  options.write,
  {
    bars: { column: '× obvious', label: 'requests per second: ours / the obvious program', mark: 1 },
    tables: [
      {
        title: `Latency with ${options.connections} connections each${quick ? ' (Q3: 4)' : ''}`,
        header: [
          ...['', 'ours: p50 / p99 ms', '×', 'obvious: p50 / p99 ms', '×', 'pgbench: p50 / p99 ms', '×'],
          ...['we waited for a core', 'cores taken by the host'],
        ],
        rows: slowest,
      },
    ],
  },
);
