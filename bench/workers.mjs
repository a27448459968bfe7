// Compares two API processes to one (ROWHOUSE_WORKERS), in turns: Q1 one row, Q2 50 rows, Q3 10,000 rows, Q4 an insert.
// npm run bench -- workers [--quick] [--seconds 3] [--repeats 7] [--connections 32] [--write]. Needs wrk.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { makeTables, statements } from './items.mjs';
import { latency, median, needTools, queryRequest, ratios, startService, stop, wrk } from './load.mjs';
import { readOptions } from './options.mjs';
import { memoryMb, postmasterOf, withCpuMs } from './processes.mjs';
import { perSecond, range, report } from './report.mjs';

const { seconds, repeats, connections, write } = readOptions({
  seconds: { quick: 1, full: 3 },
  repeats: { quick: 1, full: 7 },
  connections: 32,
});
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-workers-'));
needTools('wrk');

async function launch(workers) {
  const own = path.join(folder, String(workers));
  mkdirSync(own);
  const side = await startService(own, undefined, { ROWHOUSE_WORKERS: String(workers) });
  for (const statement of makeTables) await side.query(statement);
  return side;
}

function load(side, statement) {
  const result = withCpuMs(side.pid, postmasterOf(side.data), () =>
    wrk(folder, `${side.url}/query`, {
      headers: `, ['x-api-key'] = '${side.key}'`,
      request: queryRequest(statement),
      connections,
      seconds,
    }),
  );
  const requests = result.rate * seconds;
  const cost = (part) => (result[part] * 1000) / requests;
  return { ...result, own: cost('own'), postgres: cost('postgres') };
}

const rows = [];
const sides = [];
try {
  for (const workers of [1, 2]) sides.push(await launch(workers));
  for (const [name, statement] of Object.entries(statements)) {
    const measured = sides.map(() => []);
    // The first turn is not counted: it opens connections and compiles code, on both sides.
    for (let turn = -1; turn < repeats; turn++)
      for (const [n, side] of sides.entries()) {
        const result = load(side, statement);
        if (turn >= 0) measured[n].push(result);
      }
    const [one, two] = measured;
    const middle = (results, part) => median(results.map((result) => result[part]));
    const rates = (results) => results.map(({ rate }) => rate);
    const found = ratios(rates(two), rates(one));
    rows.push([
      name,
      ...measured.map((results) => perSecond(middle(results, 'rate'))),
      median(found).toFixed(2),
      range(found),
      ...measured.map((results) => latency(results.at(-1))),
      ...measured.map((results) =>
        [middle(results, 'own'), middle(results, 'postgres')].map((cost) => cost.toFixed(0)).join(' + '),
      ),
    ]);
  }
  const memory = sides.map((side) => memoryMb(side.pid, postmasterOf(side.data)).service.toFixed(0));
  rows.push(['memory, MB', ...memory, (memory[1] / memory[0]).toFixed(2), '', '', '', '', '']);
} finally {
  for (const side of sides) await stop(side);
  rmSync(folder, { recursive: true, force: true });
}
report(
  'workers',
  [
    `${availableParallelism()} cores`,
    '1 process /s',
    '2 processes /s',
    '×',
    'min–max',
    '1: p50 / p99 ms',
    '2: p50 / p99 ms',
    '1: µs ours + PostgreSQL',
    '2: µs ours + PostgreSQL',
  ],
  rows,
  write,
  { bars: { column: '×', label: 'two processes / one', mark: 1 } },
);
