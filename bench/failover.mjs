// Failover of a real cluster (Patroni, etcd, three PostgreSQL nodes) under two API processes with two writers each: the longest
// time between two acknowledged writes, acknowledged writes that are lost, and how soon the old primary is a standby again.
// npm run bench -- failover [--quick] [--runs 20] [--write]
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openCluster } from '../scripts/patroni-cluster.mjs';
import { median, start, startService, stop } from './load.mjs';
import { readOptions } from './options.mjs';
import { report } from './report.mjs';

const { runs, write } = readOptions({ runs: { quick: 2, full: 20 } });
const goals = { postgres: '≤ 5 s', node: '≤ 25 s' };
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-failover-'));
const cluster = await openCluster();
if (typeof cluster === 'string') {
  rmSync(folder, { recursive: true });
  console.error(`This benchmark cannot run here: ${cluster}.`);
  process.exit(1);
}
const processes = [];
const rows = [];
let ledger;
try {
  const service = await startProcesses();
  await service.query('create table ledger (id int primary key)');
  ledger = startLedger(service);
  for (const [what, count] of [
    ['postgres', runs],
    ['node', Math.max(1, Math.round(runs / 4))],
  ]) {
    const results = [];
    while (results.length < count) {
      results.push(await failOver(what));
      const { gapMs, rejoinMs } = results.at(-1);
      console.log(
        `${what} ${results.length}/${count}: gap ${seconds(gapMs)}, rejoined after ${seconds(rejoinMs)}`,
      );
    }
    const [gaps, rejoins] = ['gapMs', 'rejoinMs'].map((name) => results.map((each) => each[name]));
    const { acknowledged, lost, unknown } = await ledger.count();
    rows.push([
      what === 'postgres' ? 'PostgreSQL killed' : 'node killed (PostgreSQL and Patroni)',
      ...[count, seconds(median(gaps)), seconds(Math.max(...gaps)), goals[what]].map(String),
      ...[acknowledged, lost, unknown, `${rejoins.length} of ${count}`].map(String),
      seconds(Math.max(...rejoins)),
    ]);
  }
} finally {
  await ledger?.stop();
  for (const each of processes) await stop(each);
  await cluster.stop();
  rmSync(folder, { recursive: true, force: true });
}
report(
  'failover',
  [
    ...['event', 'runs', 'gap, median', 'gap, longest', 'goal'],
    ...['acknowledged', 'lost', 'unknown', 'rejoined', 'rejoin, longest'],
  ],
  rows,
  write,
  {
    notes: [
      'Gap: the longest time between two acknowledged writes around the event. Two API processes with two writers each; they, etcd and the three nodes share the machine.',
      'Lost: acknowledged and not stored at the end of all runs of the row. Unknown: answered with outcome_unknown; stored or not.',
      'deploy/patroni/patroni.yaml: synchronous_mode, ttl 20 s, loop_wait 2 s. A killed node is started again when another one is the primary.',
    ],
  },
);
if (rows.some((row) => row[6] !== '0')) throw new Error('Acknowledged writes are lost.');

async function startProcesses() {
  const env = { ROWHOUSE_DATABASE_URL: cluster.url, ROWHOUSE_MASTER_KEY: randomBytes(32).toString('hex') };
  const first = await startService(newFolder('one'), undefined, env);
  processes.push(first);
  const port = first.port + 1;
  const more = { ROWHOUSE_DATA: newFolder('two'), ROWHOUSE_PORT: String(port) };
  processes.push(await start('packages/server/dist/main.js', { ...env, ...more }, /^ready$/m));
  return { ...first, urls: [first.url, first.url.replace(`:${first.port}/`, `:${port}/`)] };
}

function newFolder(name) {
  mkdirSync(path.join(folder, name));
  return path.join(folder, name);
}

/** `gapMs`, and `rejoinMs` from the kill, or from the node's new start. */
async function failOver(what) {
  await cluster.isComplete();
  await ledger.grows();
  ledger.longestGapMs();
  const old = await cluster.primary();
  let from = performance.now();
  cluster.kill(old, what);
  while ((await cluster.primary()) === old) await sleep(50);
  await ledger.grows();
  const gapMs = ledger.longestGapMs();
  if (what === 'node') {
    from = performance.now();
    cluster.start(old);
  }
  while (!(await cluster.isReplica(old))) await sleep(50);
  return { gapMs, rejoinMs: performance.now() - from };
}

/** Each writer notes what it was told about each row. */
function startLedger({ urls, key, query }) {
  const acknowledged = [];
  const problems = [];
  let [unknown, next, isOver, lastAt, longest] = [0, 0, false, performance.now(), 0];
  const gap = () => Math.max(longest, performance.now() - lastAt);
  const insert = async (url, id) => {
    const headers = { 'x-api-key': key, 'content-type': 'application/json' };
    const body = JSON.stringify({ query: `insert into ledger values (${id})` });
    const response = await fetch(`${url}/query`, { method: 'POST', headers, body });
    const { ok, error } = await response.json();
    return ok ? 'acknowledged' : error.code;
  };
  const writers = [...urls, ...urls].map(async (url) => {
    while (!isOver) {
      const id = next++;
      const told = await insert(url, id);
      if (told === 'acknowledged') {
        acknowledged.push(id);
        longest = gap();
        lastAt = performance.now();
      } else if (told === 'outcome_unknown') unknown++;
      else if (told !== 'unavailable') problems.push(told);
    }
  });
  return {
    longestGapMs: () => {
      const found = gap();
      longest = 0;
      return found;
    },
    grows: async () => {
      const before = acknowledged.length;
      while (acknowledged.length < before + 50) await sleep(20);
    },
    count: async () => {
      if (problems.length > 0) throw new Error(`Unexpected: ${[...new Set(problems)].join(', ')}.`);
      const told = [...acknowledged];
      const stored = new Set((await query('select id from ledger')).rows.map(({ id }) => id));
      const lost = told.filter((id) => !stored.has(id)).length;
      return { acknowledged: told.length, lost, unknown };
    },
    stop: async () => {
      isOver = true;
      await Promise.allSettled(writers);
    },
  };
}

function seconds(ms) {
  return `${(ms / 1000).toFixed(1)} s`;
}
