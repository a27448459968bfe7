// What limit_mb costs, and how exactly it is enforced. Compares insert throughput far from the limit, in a project of 64 MB that
// is half full, and without limits (in the same build), by /query and by the table endpoint. Then 1, 4 and 16 writers fill a
// project with a limit of 60 MB: the table shows the peak size on disk and the committed size at the end.
// npm run bench -- quotas [--seconds 3] [--repeats 7] [--quick] [--write]. Needs wrk.
import { cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { median, needTools, ratio, startService, stop, wrk } from './load.mjs';
import { readOptions } from './options.mjs';
import { postmasterOf, withCpuMs } from './processes.mjs';
import { report } from './report.mjs';

const options = readOptions({
  seconds: { quick: 1, full: 3 },
  repeats: { quick: 1, full: 7 },
  writers: {
    quick: [4],
    full: [1, 4, 16],
    what: 'writers that fill a project, one measurement for each number',
  },
});
needTools('wrk');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-quotas-'));
const mb = 1024 * 1024;

const ways = {
  query: {
    path: '/query',
    body: `{"query":"insert into sales (item, note) values ($1, \\'bench\\')","params":[1]}`,
  },
  table: { path: '/tables/sales', body: '{"item":1,"note":"bench"}' },
};

/** Inserts per second, and the CPU time of one in microseconds: the service's and PostgreSQL's. */
function inserts(way, { url, key, pid, data }) {
  const { rate, requests, own, postgres } = withCpuMs(pid, postmasterOf(data), () =>
    wrk(folder, url + ways[way].path, {
      headers: `, ['x-api-key'] = '${key}'`,
      request: `return wrk.format('POST', nil, headers, '${ways[way].body}')`,
      connections: 32,
      seconds: options.seconds,
    }),
  );
  return { rate, own: (own * 1000) / requests, postgres: (postgres * 1000) / requests };
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
  `export * from './real-admission.js';\nexport const withHeadroom = (_deps, _growing, run) => run(null, () => () => {});\n`,
);
const off = await startService(path.join(folder, 'off'), path.join(unlimited, 'main.js'));
try {
  const table =
    'create table sales (id bigint generated always as identity primary key, item int, note text)';
  const half = { ...ours, ...(await ours.makeProject('Half full', 64)) };
  const sides = { off, far: ours, half };
  for (const side of Object.values(sides)) await side.query(table);
  await half.query(
    `create table filler as select repeat(md5(n::text), 30) as text from generate_series(1, 32000) as n`,
  );
  const { usage } = await half.call('GET', '/usage');
  const names = { far: 'far from the limit', half: `limit_mb 64, ${usage.size_mb.toFixed(0)} MB used` };
  for (const way of Object.keys(ways)) {
    const runs = { off: [], far: [], half: [] };
    // The first turn is not counted: it opens connections and compiles code, on every side.
    for (let repeat = -1; repeat < options.repeats; repeat++) {
      for (const [name, side] of Object.entries(sides)) {
        const run = inserts(way, side);
        if (repeat >= 0) runs[name].push(run);
      }
      await half.query('truncate sales');
    }
    const rates = (name) => runs[name].map(({ rate }) => rate);
    const cpu = (name) =>
      ['own', 'postgres'].map((part) => Math.round(median(runs[name].map((run) => run[part])))).join(' + ');
    const shown = (name) => `${Math.round(median(rates(name)))} (${cpu(name)} µs)`;
    for (const [name, words] of Object.entries(names))
      rows.push([
        `inserts /s by ${ways[way].path}, ${words}`,
        shown('off'),
        shown(name),
        ratio(rates(name), rates('off')).toFixed(2),
      ]);
  }
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
