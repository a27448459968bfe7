// Pages and inserts by the table endpoints, with everything enabled, compared to the obvious program with hand-written SQL.
// Deep pages compared to the first page and to OFFSET; imports compared to psql's \copy.
// npm run bench -- tables [--seconds 3] [--repeats 7] [--rows 2000000] [--quick] [--write]. Needs wrk and psql.
import { execFileSync } from 'node:child_process';
import { createReadStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { latency, median, needTools, ratio, start, startService, stop, wrk } from './load.mjs';
import { readOptions } from './options.mjs';
import { postmasterOf, withCpuMs } from './processes.mjs';
import { report } from './report.mjs';

const options = readOptions({
  seconds: { quick: 1, full: 3 },
  repeats: { quick: 1, full: 7 },
  connections: 32,
  rows: { quick: 200_000, full: 2_000_000, what: 'rows of the table with deep pages' },
});
const { repeats, rows: total } = options;
needTools('wrk', 'psql');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-tables-'));
const ours = await startService(folder);
const rows = [];
const copying = "psql's \\copy of CSV";
let obvious = null;

const columns =
  '(id bigint primary key, name text, price numeric(10,2), in_stock boolean, tags jsonb, created_at timestamptz)';
const series = (n) =>
  `select n, 'Item number ' || n, (n % 10000) / 100.0, n % 3 = 0, jsonb_build_object('color', 'red', 'sizes', jsonb_build_array(n % 7, n % 11)), timestamptz '2026-01-01' + n * interval '1 minute' from generate_series(1, ${n}) as n`;

/** Runs both in turns and compares requests per second. */
function compare(name, goal, mine, theirs) {
  const rates = { mine: [], theirs: [] };
  let cpu = 0;
  let requests = 0;
  let last;
  for (let turn = -1; turn < repeats; turn++) {
    const one = withCpuMs(ours.pid, postmasterOf(ours.data), mine);
    const other = theirs();
    // The first turn is not counted: it opens connections and compiles code, on both sides.
    if (turn < 0) continue;
    rates.mine.push(one.rate);
    rates.theirs.push(other.rate);
    cpu += one.own;
    requests += one.rate * options.seconds;
    last = one;
  }
  rows.push([
    name,
    median(rates.mine).toFixed(0),
    median(rates.theirs).toFixed(0),
    ratio(rates.mine, rates.theirs).toFixed(2),
    goal,
    latency(last),
    `${Math.round((cpu * 1000) / requests)} µs`,
  ]);
}

/** Runs both in turns, once per turn, and compares milliseconds. `prepare` runs before each, and is not counted. */
async function race(name, goal, mine, theirs, toRatio, prepare = () => {}) {
  const times = { mine: [], theirs: [] };
  for (let turn = -1; turn < repeats; turn++) {
    for (const [side, run] of Object.entries({ mine, theirs })) {
      await prepare();
      const began = performance.now();
      await run();
      if (turn >= 0) times[side].push(performance.now() - began);
    }
  }
  const [one, other] = [median(times.mine), median(times.theirs)];
  rows.push([
    name,
    `${one.toFixed(1)} ms`,
    `${other.toFixed(1)} ms`,
    toRatio(times).toFixed(2),
    goal,
    '',
    '',
  ]);
}

try {
  await ours.query(`create table items ${columns}`);
  await ours.query(`insert into items ${series(100_000)}`);
  await ours.query(
    'create table sales (id bigint generated always as identity primary key, item bigint, note text, at timestamptz default now())',
  );
  await ours.query(`create table deep ${columns}`);
  await ours.query(`insert into deep ${series(total)}`);
  await ours.query(`create table imported ${columns}`);
  await ours.query('vacuum analyze');
  const port = String(ours.port + 1);
  obvious = await start(
    'bench/peers/obvious/server.mjs',
    { DATABASE_URL: ours.databaseUrl, PORT: port },
    /ready/,
  );
  const load = { connections: options.connections, seconds: options.seconds };
  const key = `, ['x-api-key'] = '${ours.key}'`;
  compare(
    'page of 50 rows',
    '≥ 2',
    () =>
      wrk(folder, ours.url, {
        ...load,
        request: `return wrk.format('GET', '/api/dbaas/v2/projects/bench/tables/items', { ['x-api-key'] = '${ours.key}' })`,
      }),
    () =>
      wrk(folder, `http://127.0.0.1:${port}/items`, {
        ...load,
        request: `return wrk.format('GET', '/items', {})`,
      }),
  );
  const sale = `'{"item":' .. math.random(1, 90000) .. ',"note":"bench"}'`;
  compare(
    'insert of one row',
    '≥ 1',
    () =>
      wrk(folder, `${ours.url}/tables/sales`, {
        ...load,
        headers: key,
        request: `return wrk.format('POST', nil, headers, ${sale})`,
      }),
    () =>
      wrk(folder, `http://127.0.0.1:${port}/sales`, {
        ...load,
        request: `return wrk.format('POST', nil, headers, ${sale})`,
      }),
  );
  const half = total / 2;
  const near = await ours.call('GET', '/tables/deep?limit=50');
  const far = await ours.call('GET', `/tables/deep?limit=50&page=${half / 50}`);
  const page = (cursor) => async () => {
    for (let n = 0; n < 50; n++) await ours.call('GET', `/tables/deep?limit=50&cursor=${cursor}`);
  };
  await race(
    `50 pages by cursor: at row ${half}, at row 50`,
    '≤ 1.5',
    page(far.next_cursor),
    page(near.next_cursor),
    ({ mine, theirs }) => ratio(mine, theirs),
  );
  const deepPage = Math.min(20_000, Math.floor(total / 50));
  const offset = `select * from deep order by id limit 50 offset ${(deepPage - 1) * 50}`;
  await race(
    `page ${deepPage}; plain OFFSET by SQL`,
    'far cheaper',
    () => ours.call('GET', `/tables/deep?limit=50&page=${deepPage}`),
    () => ours.query(offset),
    ({ mine, theirs }) => ratio(mine, theirs),
  );
  // Its direct connections make the service measure the project at each commit.
  await stop(obvious);
  obvious = null;
  const psql = (text) =>
    execFileSync('psql', [ours.databaseUrl, '-qAtc', text], { encoding: 'utf8', maxBuffer: 1e9 });
  const files = {
    csv: [path.join(folder, 'items.csv'), '\\copy (select * from items) to stdout (format csv, header)'],
    json: [path.join(folder, 'items.jsonl'), 'select row_to_json(items) from items'],
  };
  for (const [file, text] of Object.values(files)) writeFileSync(file, psql(text));
  const send = async (type, body) => {
    const query = type === 'application/json' ? '?returning=minimal' : '';
    const response = await fetch(`${ours.url}/tables/imported${query}`, {
      method: 'POST',
      headers: { 'x-api-key': ours.key, 'content-type': type },
      body,
      duplex: 'half',
    });
    const answer = await response.json();
    if (!answer.ok) throw new Error(JSON.stringify(answer));
    return answer.row_count;
  };
  const lines = readFileSync(files.json[0], 'utf8').trim().split('\n');
  const arrays = [];
  for (let at = 0; at < lines.length; at += 1_000)
    arrays.push(Buffer.from(`[${lines.slice(at, at + 1_000)}]`));
  const ways = {
    [`CSV of 100,000 rows; ${copying}`]: ['≥ 0.8', () => send('text/csv', createReadStream(files.csv[0]))],
    [`JSON lines of 100,000 rows; ${copying}`]: [
      '≥ 0.8',
      () => send('application/x-ndjson', createReadStream(files.json[0])),
    ],
    [`100 arrays of 1,000 rows, 4 at a time, none returned; ${copying}`]: [
      '≥ 0.6',
      async () => {
        const next = arrays.values();
        const counts = Array.from({ length: 4 }, async () => {
          let count = 0;
          for (const array of next) count += await send('application/json', array);
          return count;
        });
        return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
      },
    ],
  };
  for (const [name, [goal, run]] of Object.entries(ways)) {
    await race(
      name,
      goal,
      async () => {
        if ((await run()) !== 100_000) throw new Error('Rows are missing.');
      },
      () => psql(`\\copy imported from '${files.csv[0]}' (format csv, header)`),
      ({ mine, theirs }) => ratio(theirs, mine),
      () => ours.query('truncate imported'),
    );
  }
} finally {
  if (obvious) await stop(obvious);
  await stop(ours);
  rmSync(folder, { recursive: true, force: true });
}
report(
  'tables',
  ['', 'ours', 'the other', 'ratio', 'goal', 'p50 / p99 ms', 'our CPU per request'],
  rows,
  options.write,
  { bars: { column: 'ratio', label: 'ratio (the table says of what, and names the goal)', mark: 1 } },
);
