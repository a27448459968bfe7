// Q1 one row, Q2 50 rows, Q3 10,000 rows, Q4 an insert: ours with everything switched on, against pgbench on the same
// server and against the obvious program (fastify + pg + JSON.stringify; no key, no isolation, no reset, no limits).
// npm run bench -- query [--seconds 3] [--repeats 7] [--quick] [--write]. Needs wrk and pgbench (Debian: wrk, postgresql-client).
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { cpuMs, needTools, ratio, start, startService, stop, wrk } from './load.mjs';
import { report } from './report.mjs';

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
const workloads = {
  Q1: { sql: 'select id, name, price, in_stock, tags, created_at from items where id = $1', id: 'one' },
  Q2: {
    sql: 'select id, name, price, in_stock, tags, created_at from items where id >= $1 order by id limit 50',
    id: 'one',
  },
  Q3: {
    sql: 'select id, name, price, in_stock, tags, created_at from items order by id limit 10000',
    id: 'none',
  },
  Q4: { sql: "insert into sales (item, note) values ($1, 'bench')", id: 'one' },
};

/** With a random id in each body. */
function load(url, headers, { sql, id }) {
  const text = JSON.stringify(sql).replaceAll("'", "\\'");
  const parameters = id === 'one' ? `[' .. math.random(1, 90000) .. ']` : '[]';
  return wrk(folder, url, {
    headers,
    request: `return wrk.format('POST', nil, headers, '{"query":${text},"params":${parameters}}')`,
    connections: options.connections,
    seconds: options.seconds,
  });
}

function pgbench(url, mode, { sql, id }) {
  const script = path.join(folder, 'pgbench.sql');
  const set = id === 'one' ? '\\set id random(1, 90000)\n' : '';
  writeFileSync(script, `${set}${sql.replace('$1', ':id')};\n`);
  const out = execFileSync(
    'pgbench',
    ['-n', '-M', mode, '-c', '10', '-j', '1', '-T', options.seconds, '-f', script, url],
    {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  return { rate: Number(/tps = ([\d.]+)/.exec(out)[1]) };
}

needTools('wrk', 'pgbench');
const ours = await startService(folder);
const rows = [];
let obvious;
try {
  const { query, databaseUrl } = ours;
  await query(
    `create table items (id bigint primary key, name text, price numeric(10,2), in_stock boolean, tags jsonb, created_at timestamptz)`,
  );
  await query(
    `insert into items select n, 'Item number ' || n, (n % 10000) / 100.0, n % 3 = 0, jsonb_build_object('color', 'red', 'sizes', jsonb_build_array(n % 7, n % 11)), timestamptz '2026-01-01' + n * interval '1 minute' from generate_series(1, 100000) as n`,
  );
  await query(
    'create table sales (id bigint generated always as identity primary key, item bigint, note text, at timestamptz default now())',
  );
  await query('vacuum analyze items');
  const port = String(ours.port + 1);
  obvious = await start('bench/peers/obvious/server.mjs', { DATABASE_URL: databaseUrl, PORT: port }, /ready/);
  const sides = {
    ours: (workload) => load(`${ours.url}/query`, `, ['x-api-key'] = '${ours.key}'`, workload),
    obvious: (workload) => load(`http://127.0.0.1:${port}/query`, '', workload),
    extended: (workload) => pgbench(databaseUrl, 'extended', workload),
    prepared: (workload) => pgbench(databaseUrl, 'prepared', workload),
  };
  const middle = (list) => [...list].sort((a, b) => a.rate - b.rate)[Math.floor(list.length / 2)];
  for (const [name, workload] of Object.entries(workloads)) {
    const measured = Object.fromEntries(Object.keys(sides).map((side) => [side, []]));
    let cpu = 0;
    let requests = 0;
    // The first turn is not counted: connections are opened and code is compiled, on every side.
    for (let repeat = -1; repeat < Number(options.repeats); repeat++) {
      for (const [side, run] of Object.entries(sides)) {
        const before = cpuMs(ours);
        const result = run(workload);
        if (repeat < 0) continue;
        measured[side].push(result);
        if (side === 'ours') {
          cpu += cpuMs(ours) - before;
          requests += result.rate * Number(options.seconds);
        }
      }
    }
    const mid = Object.fromEntries(Object.entries(measured).map(([side, list]) => [side, middle(list)]));
    const against = (side) => {
      const rates = (list) => list.map(({ rate }) => rate);
      return ratio(rates(measured.ours), rates(measured[side])).toFixed(2);
    };
    rows.push([
      name,
      ...['ours', 'obvious', 'extended', 'prepared'].map((side) =>
        mid[side].rate.toFixed(mid[side].rate < 100 ? 1 : 0),
      ),
      against('obvious'),
      against('prepared'),
      `${mid.ours.p50} / ${mid.ours.p99}`,
      `${Math.round((cpu * 1000) / requests)} µs`,
    ]);
  }
} finally {
  if (obvious) await stop(obvious);
  await stop(ours);
  rmSync(folder, { recursive: true, force: true });
}
report(
  'query',
  `npm run bench -- query${quick ? ' --quick' : ''}`,
  [
    '',
    'ours /s',
    'obvious /s',
    'pgbench extended',
    'pgbench prepared',
    '× obvious',
    '× prepared',
    'p50 / p99',
    'our CPU a request',
  ],
  rows,
  options.write,
);
