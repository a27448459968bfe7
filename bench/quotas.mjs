// What limit_mb costs, and how exactly it is enforced. Compares insert throughput far from the limit, near it, and without
// limits (in the same build). Then 1, 4 and 16 writers fill a project with a limit of 60 MB: the table shows the peak size
// on disk and the committed size at the end.
// npm run bench -- quotas [--seconds 3] [--repeats 7] [--quick] [--write]. Needs wrk.
import { cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { median, needTools, ratio, startService, stop, wrk } from './load.mjs';
import { readOptions } from './options.mjs';
import { report } from './report.mjs';

const options = readOptions({
  seconds: { quick: 1, full: 3 },
  repeats: { quick: 1, full: 7 },
  writers: { quick: [4], full: [1, 4, 16] },
});
needTools('wrk');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-quotas-'));
const mb = 1024 * 1024;

function inserts({ url, key }) {
  const body = `{"query":"insert into sales (item, note) values ($1, \\'bench\\')","params":[1]}`;
  return wrk(folder, `${url}/query`, {
    headers: `, ['x-api-key'] = '${key}'`,
    request: `return wrk.format('POST', nil, headers, '${body}')`,
    connections: 32,
    seconds: options.seconds,
  }).rate;
}

/** `peak` and `end`: MB above the size of an empty project. */
async function fill(project, writers) {
  await project.query('create table t (a int, b text)');
  const empty = (await project.call('GET', '/usage')).usage.size_mb;
  let isOver = false;
  let peak = 0;
  let refused = 0;
  const watch = (async () => {
    while (!isOver) {
      const { rows } = await project.query('select pg_database_size(current_database()) as size');
      peak = Math.max(peak, rows[0].size);
      await sleep(5);
    }
  })();
  const { rows } = await project.query('select pg_database_size(current_database()) as size');
  const begin = rows[0].size;
  const write = async () => {
    for (let failures = 0; failures < 3; ) {
      const text = `insert into t select n, repeat('x', 1000) from generate_series(1, ${500 + Math.floor(Math.random() * 4000)}) as n`;
      await project.query(text).catch((error) => {
        if (!/project_full|overloaded/.test(error.message)) throw error;
        failures++;
        refused++;
      });
    }
  };
  await Promise.all(Array.from({ length: writers }, write));
  isOver = true;
  await watch;
  await sleep(500);
  const { usage } = await project.call('GET', '/usage');
  return { peak: empty + (peak - begin) / mb, end: usage.size_mb, refused };
}

const rows = [];
const ours = await startService(folder);
// The same program, except that the one function that enforces limits on statements enforces none.
const unlimited = path.resolve(import.meta.dirname, '../packages/server/dist-without-limits');
cpSync(path.resolve(unlimited, '../dist'), unlimited, { recursive: true });
renameSync(path.join(unlimited, 'query/admission.js'), path.join(unlimited, 'query/real-admission.js'));
writeFileSync(
  path.join(unlimited, 'query/admission.js'),
  `export * from './real-admission.js';\nexport const withHeadroom = (_deps, _project, _options, _reader, run) => run(null, () => () => {});\n`,
);
const off = await startService(path.join(folder, 'off'), path.join(unlimited, 'main.js'));
try {
  const table =
    'create table sales (id bigint generated always as identity primary key, item int, note text)';
  const near = await ours.makeProject('Near', 64);
  for (const project of [ours, off, near]) await project.query(table);
  const rates = { off: [], far: [], near: [] };
  const sides = { off, far: ours, near };
  // The first turn is not counted: it opens connections and compiles code, on every side.
  for (let repeat = -1; repeat < options.repeats; repeat++) {
    for (const [name, side] of Object.entries(sides)) {
      const rate = inserts(side);
      if (repeat >= 0) rates[name].push(rate);
    }
    await near.query('truncate sales');
  }
  const shown = (list) => Math.round(median(list)).toString();
  rows.push([
    'inserts /s, far from the limit',
    shown(rates.off),
    shown(rates.far),
    ratio(rates.far, rates.off).toFixed(2),
  ]);
  rows.push([
    'inserts /s, limit_mb 64',
    shown(rates.off),
    shown(rates.near),
    ratio(rates.near, rates.off).toFixed(2),
  ]);
  for (const writers of options.writers) {
    const { peak, end, refused } = await fill(await ours.makeProject(`Fill ${writers}`, 60), writers);
    rows.push([
      `${writers} writers, limit 60 MB: peak, end`,
      '60 MB',
      `${peak.toFixed(1)} MB, ${end.toFixed(1)} MB`,
      `${refused} refused`,
    ]);
  }
} finally {
  await stop(ours);
  await stop(off);
  for (const made of [folder, unlimited]) rmSync(made, { recursive: true, force: true });
}
report('quotas', ['', 'without limits', 'with limits', 'ratio'], rows, options.write, {
  bars: { column: 'ratio', label: 'with limits / without', mark: 1 },
});
