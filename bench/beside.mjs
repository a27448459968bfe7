// Reads of 1, 50 and 10,000 rows (Q1 to Q3) and inserts (Q4) beside other work in the same project: a client that reads 10,000
// rows again and again, and ten direct connections, idle and busy, which the service watches because of the limit.
// npm run bench -- beside [--quick] [--seconds 3] [--repeats 7] [--connections 32] [--write]. Needs wrk.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { lastId, makeTables, statements } from './items.mjs';
import {
  latency,
  median,
  needTools,
  queryRequest,
  ratios,
  startService,
  stop,
  wrkTogether,
} from './load.mjs';
import { readOptions } from './options.mjs';
import { perSecond, range, report } from './report.mjs';

const { seconds, repeats, connections, write } = readOptions({
  seconds: { quick: 1, full: 3 },
  repeats: { quick: 1, full: 7 },
  connections: 32,
});
needTools('wrk');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-beside-'));
const directConnections = 10;
/** Statements per second of each busy direct connection. */
const directRate = 20;

const service = await startService(folder);
const load = (statement, clients = connections) => [
  `${service.url}/query`,
  {
    headers: `, ['x-api-key'] = '${service.key}'`,
    request: queryRequest(statement),
    connections: clients,
    seconds,
  },
];

async function besideNothing(statement) {
  const [result] = await wrkTogether(folder, [load(statement)]);
  return result;
}

async function besideLargeAnswers(statement) {
  const [result] = await wrkTogether(folder, [load(statement), load(statements.Q3, 1)]);
  return result;
}

async function besideDirect(statement, isBusy) {
  const clients = Array.from({ length: directConnections }, () => new pg.Client(service.databaseUrl));
  let isOver = false;
  const use = async (client) => {
    while (isBusy && !isOver) {
      const values = [1 + Math.floor(Math.random() * lastId)];
      await client.query({ name: 'one row', text: statements.Q1, values });
      await sleep(1000 / directRate);
    }
  };
  try {
    for (const client of clients) await client.connect();
    const used = clients.map(use);
    const result = await besideNothing(statement);
    isOver = true;
    await Promise.all(used);
    return result;
  } finally {
    isOver = true;
    for (const client of clients) await client.end();
  }
}

const sides = {
  'nothing else': besideNothing,
  'a client with 10,000 rows': besideLargeAnswers,
  [`${directConnections} idle direct connections`]: (statement) => besideDirect(statement, false),
  [`${directConnections} direct connections, ${directRate} statements/s each`]: (statement) =>
    besideDirect(statement, true),
};
const rows = [];
try {
  for (const statement of makeTables) await service.query(statement);
  for (const [name, statement] of Object.entries(statements)) {
    const measured = Object.fromEntries(Object.keys(sides).map((side) => [side, []]));
    // The first turn is not counted: it opens connections and compiles code.
    for (let turn = -1; turn < repeats; turn++)
      for (const [side, run] of Object.entries(sides)) {
        const result = await run(statement);
        if (turn >= 0) measured[side].push(result);
      }
    const [alone] = Object.values(measured);
    const percentile = (results, n) => results.map(({ ms }) => ms[n]);
    const rates = (results) => results.map(({ rate }) => rate);
    for (const [side, results] of Object.entries(measured)) {
      const speed = ratios(rates(results), rates(alone));
      const slowest = ratios(percentile(results, 1), percentile(alone, 1));
      const isGoal = name === 'Q1' && results !== alone && side.includes('10,000');
      rows.push([
        ...[name, side, perSecond(median(rates(results))), median(speed).toFixed(2), range(speed)],
        latency({ ms: [0, 1].map((n) => median(percentile(results, n))) }),
        ...[median(slowest).toFixed(2), range(slowest), isGoal ? '≤ 3' : ''],
      ]);
    }
  }
} finally {
  await stop(service);
  rmSync(folder, { recursive: true, force: true });
}
report(
  'beside',
  ['', 'beside', '/s', '× alone', 'min–max', 'p50 / p99 ms', 'p99 × alone', 'min–max', 'goal'],
  rows,
  write,
  {
    notes: [
      `${connections} connections. The loads take turns. Load, service and PostgreSQL share the cores.`,
    ],
  },
);
