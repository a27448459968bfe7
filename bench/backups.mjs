// What backups cost writers, and what a restore takes: inserts a second without backups, while WAL is stored in a folder,
// and while a base backup runs; then the restore of one project out of several, with much WAL since the last backup.
// npm run bench -- backups [--quick] [--seconds 5] [--turns 5] [--project 50] [--wal 4000] [--write]
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { median, needTools, startService, stop, wrk } from './load.mjs';
import { readOptions } from './options.mjs';
import { perSecond, range, report } from './report.mjs';

const { seconds, turns, project, wal, write } = readOptions({
  seconds: { quick: 3, full: 5 },
  turns: { quick: 3, full: 7 },
  project: { quick: 50, full: 50, what: 'MB of the project that is restored' },
  wal: { quick: 500, full: 4000, what: 'MB of WAL since its backup' },
});
needTools('wrk');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-backups-'));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const limitMb = 8000;

async function startIn(name, env) {
  const place = path.join(folder, name);
  mkdirSync(place);
  return { place, service: await startService(place, undefined, env) };
}

async function untilBackup(service) {
  for (;;) {
    if ((await service.asAccount('GET', '/backups')).backups.length > 0) return;
    await sleep(500);
  }
}

async function untilDone(service, started) {
  let { job } = started;
  while (job.status === 'running') {
    await sleep(200);
    ({ job } = await service.asAccount('GET', `/jobs/${job.id}`));
  }
  if (job.status !== 'done') throw new Error(JSON.stringify(job));
  return job;
}

/** About so many megabytes that gzip does not make smaller: the rows that are repeated are 25 MB apart. */
async function fill(target, mb) {
  await target.query('create table if not exists bulk (v bytea)');
  const random = Array.from({ length: 64 }, () => 'md5(random()::text)').join(' || ');
  for (let done = 0; done < mb; done += 25) {
    const rows = Math.min(25, mb - done) * 900;
    const source =
      done === 0 ? `decode(${random}, 'hex') from generate_series(1, ${rows})` : `v from bulk limit ${rows}`;
    await target.query(`insert into bulk select ${source}`);
  }
}

const insert = `return wrk.format('POST', nil, headers, '{"query": "insert into items (v) values ($1)", "params": ["' .. math.random(1000000) .. '"]}')`;

async function inserts({ place, service }) {
  const { rate } = wrk(place, `${service.url}/query`, {
    headers: `, ['x-api-key'] = '${service.key}'`,
    request: insert,
    connections: 16,
    seconds,
  });
  // wrk held up the event loop: it has to notice now which connections the service has closed meanwhile.
  await sleep(100);
  return rate;
}

async function writers() {
  const without = await startIn('without', { ROWHOUSE_BACKUP_URL: 'off' });
  const stored = await startIn('stored', {
    ROWHOUSE_BACKUP_URL: `file:${path.join(folder, 'stored-backups')}`,
  });
  try {
    for (const { service } of [without, stored])
      await service.query('create table items (id bigint generated always as identity primary key, v text)');
    // So much that a base backup at its default rate lasts longer than a turn.
    const neighbour = await stored.service.makeProject('Neighbour', limitMb);
    await fill(neighbour, seconds * 40);
    await untilBackup(stored.service);
    await sleep(3_000);
    const rates = { without: [], stored: [], during: [] };
    for (let turn = -1; turn < turns; turn++) {
      const [alone, beside] = [await inserts(without), await inserts(stored)];
      const running = await stored.service.asAccount('POST', '/backups', { kind: 'full' });
      const during = await inserts(stored);
      await untilDone(stored.service, running);
      if (turn < 0) continue;
      rates.without.push(alone);
      rates.stored.push(beside);
      rates.during.push(during);
    }
    return rates;
  } finally {
    await stop(without.service);
    await stop(stored.service);
  }
}

async function restoring() {
  const place = await startIn('restored', {
    ROWHOUSE_BACKUP_URL: `file:${path.join(folder, 'restored-backups')}`,
  });
  const { service } = place;
  try {
    const shop = await service.makeProject('Shop', limitMb);
    const others = await Promise.all([1, 2, 3].map((n) => service.makeProject(`Other ${n}`, limitMb)));
    await fill(shop, project);
    for (const other of others) await fill(other, 100);
    // The first one begins by itself, and another is refused while it runs.
    await untilBackup(service);
    await untilDone(service, await service.asAccount('POST', '/backups', { kind: 'full' }));
    await shop.query('create table marks (n int)');
    for (const [turn, other] of others.entries()) {
      await fill(other, wal / others.length);
      await shop.query('insert into marks values ($1)', { params: [turn] });
    }
    await sleep(20);
    const to = new Date().toISOString();
    await sleep(20);
    await shop.query('insert into marks values (99)');
    const { lag_bytes: lag } = await service.asAccount('GET', '/backups');
    const written = performance.now();
    while ((await service.asAccount('GET', '/backups')).lag_bytes > 16 * 1024 * 1024) await sleep(200);
    const since = performance.now();
    const caughtUp = (since - written) / 1000;
    const started = await service.asAccount('POST', `/projects/${shop.slug}/restore`, { to });
    await untilDone(service, started);
    const took = (performance.now() - since) / 1000;
    const restored = { key: started.api_key, slug: started.project.slug };
    const answer = await fetch(`${service.url.replace(service.slug, restored.slug)}/query`, {
      method: 'POST',
      headers: { 'x-api-key': restored.key, 'content-type': 'application/json' },
      body: JSON.stringify({ query: 'select array_agg(n order by n) as marks from marks' }),
    });
    const [{ marks }] = (await answer.json()).rows;
    const isExact = JSON.stringify(marks) === JSON.stringify(others.map((_, n) => n));
    return { took, estimate: started.estimated_seconds, isExact, lag, caughtUp };
  } finally {
    await stop(service);
  }
}

let rates;
let restored;
try {
  rates = await writers();
  console.error(JSON.stringify(rates));
  restored = await restoring();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
const ratios = (list) => list.map((rate, turn) => rate / rates.without[turn]);
const row = (name, list, goal) => {
  const mine = ratios(list);
  return [name, perSecond(median(list)), median(mine).toFixed(2), range(mine), goal];
};
report(
  'backups',
  ['16 writers', 'inserts / s', 'of without backups', 'spread', 'goal'],
  [
    row('without backups', rates.without, ''),
    row('WAL is stored in a folder', rates.stored, '≥ 0.95 with an idle core'),
    row('and a base backup runs', rates.during, '≥ 0.8'),
  ],
  write,
  {
    tables: [
      {
        title: 'Restore of one project',
        header: ['project, MB', 'WAL since the backup, MB', 's', 'foretold, s', 'exact', 'goal'],
        rows: [
          [
            String(project),
            String(wal),
            restored.took.toFixed(1),
            String(restored.estimate),
            restored.isExact ? 'yes' : 'NO',
            '≤ 120 s',
          ],
        ],
      },
    ],
    notes: [
      'Two services take turns on two cores: wrk, the service, PostgreSQL and the receiver of WAL share them, so that no core is idle.',
      'The WAL is written by three other projects. Exact: the restored project has every mark before the time, and none after it.',
    ],
  },
);
