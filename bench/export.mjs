// Exports a project with nothing installed (pg_dump as WebAssembly) and with an installed pg_dump 18, in turns: time,
// memory, and whether both write the same. Needs Linux.
// npm run bench -- export [--large 1000] [--turns 5] [--quick] prints a table; --write also writes it to bench/RESULTS.md.
// Without a pg_dump 18 or newer on PATH, the ratios are missing.
import { spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { median, startService, stop, superuserUrl } from './load.mjs';
import { readOptions } from './options.mjs';
import { forgetPeak, helpersMb, peakMb, postmasterOf, residentMb } from './processes.mjs';
import { range, report } from './report.mjs';

const { quick, write, large, turns } = readOptions({
  large: { quick: 200, full: 1_000, what: 'MB of the large project' },
  turns: { quick: 1, full: 5 },
});
const native = findNative();
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-'));
/** What a row of `documents` takes, with its index. */
const rowBytes = 486;
/** How long after an export its memory is free again. */
const afterMs = 5_000;

// An empty PATH: nothing is installed.
const service = await startService(folder, undefined, { PATH: folder });
const rows = [];
try {
  for (const sizeMb of quick ? [20, large] : [100, large]) {
    const project = await fill(sizeMb);
    const isLarge = sizeMb === large;
    for (const format of ['sql', 'custom', 'csv']) {
      const times = { ours: [], native: [] };
      let peak = project.firstPeak;
      for (let turn = 0; turn < (isLarge ? Math.min(turns, 2) : turns); turn++) {
        const ours = await exportOurs(project, format);
        times.ours.push(ours.ms);
        peak = Math.max(peak, ours.peakMb);
        if (!native || format === 'csv') continue;
        const theirs = await dumpNative(project, format);
        times.native.push(theirs.ms);
        if (format === 'sql' && theirs.hash !== ours.hash) throw new Error('The two dumps differ.');
      }
      await sleep(afterMs);
      rows.push(rowOf({ ...project, after: residentMb(service.pid) }, format, times, peak, isLarge));
    }
    await project.call('DELETE', '').catch(() => {});
  }
} finally {
  await stop(service);
  rmSync(folder, { recursive: true, force: true });
}
report(
  'export',
  ['what', 'median', 'min–max', 'pg_dump', '×', 'same text', 'memory before / at most / 5 s after', 'goal'],
  rows,
  write,
  {
    notes: [
      'Nothing is installed for the first column: pg_dump runs as WebAssembly, and the file is read over HTTP.',
      'pg_dump is the installed program on the same database, through a pipe. × is the time of the first column divided by its time; lower is better.',
      'Same text: all but the lines with versions and the random word of \\restrict. Compressed files are not compared.',
      'Memory is the resident memory of all processes of the service without PostgreSQL: before the first export of the project, the most during any one, and 5 s after the last one.',
    ],
  },
);

function rowOf({ mb, before, after }, format, times, peak, isLarge) {
  const seconds = times.ours.map((ms) => ms / 1000);
  const theirs = times.native.map((ms) => ms / 1000);
  return [
    `${mb} MB as ${format}`,
    `${median(seconds).toFixed(2)} s`,
    range(seconds),
    theirs.length > 0 ? `${median(theirs).toFixed(2)} s` : '',
    theirs.length > 0 ? median(seconds.map((value, turn) => value / theirs[turn])).toFixed(2) : '',
    native && format === 'sql' ? 'yes' : '',
    `${[before, peak, after].map((size) => size.toFixed(0)).join(' / ')} MB`,
    isLarge ? '≤ 200 MB of memory' : '≤ 2.5 s',
  ];
}

async function fill(sizeMb) {
  const project = await service.makeProject(`Export ${sizeMb}`);
  await project.query(
    'create table documents (id bigint primary key, title text, body text, data jsonb, at timestamptz)',
  );
  const total = Math.round((sizeMb * 1024 * 1024) / rowBytes);
  for (let from = 1; from <= total; from += 200_000) {
    await project.query(`insert into documents
      select n, 'Document ' || n, repeat(md5(n::text), 4) || md5((n * 7)::text) || repeat('Tea is served. ', 8),
             jsonb_build_object('color', 'red', 'sizes', jsonb_build_array(n % 7, n % 11)), now() + n * interval '1 s'
      from generate_series(${from}, ${Math.min(total, from + 199_999)}) n`);
  }
  await project.query('vacuum analyze documents');
  const { rows: sizes } = await project.query(
    'select current_database() as name, pg_database_size(current_database())::float8 as bytes',
  );
  const before = residentMb(service.pid);
  // The first export makes a role and reads the module from disk.
  const first = await exportOurs(project, 'sql');
  return {
    ...project,
    database: sizes[0].name,
    mb: Math.round(sizes[0].bytes / 1024 ** 2),
    before,
    firstPeak: first.peakMb,
  };
}

async function exportOurs(project, format) {
  const postmaster = postmasterOf(service.data);
  let helpers = 0;
  const sampling = setInterval(() => {
    helpers = Math.max(helpers, helpersMb(service.pid, postmaster));
  }, 100);
  forgetPeak(service.pid);
  const started = performance.now();
  try {
    const response = await fetch(`${project.url}/export?format=${format}`, {
      headers: { 'x-api-key': project.key },
    });
    if (!response.ok) throw new Error(await response.text());
    const hash = await hashOf(response.body);
    return { ms: performance.now() - started, peakMb: peakMb(service.pid) + helpers, hash };
  } finally {
    clearInterval(sampling);
  }
}

async function dumpNative({ database }, format) {
  const url = await superuserUrl(service.data, database);
  const args = [
    ...(format === 'sql' ? ['--format=plain'] : ['--format=custom', '--compress=gzip:1']),
    ...['--exclude-schema=rowhouse', '--exclude-schema=pg_catalog', `--dbname=${url}`],
  ];
  const started = performance.now();
  const child = spawn('pg_dump', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const hash = await hashOf(child.stdout);
  return { ms: performance.now() - started, hash };
}

/** The hash of all lines but those that differ between any two dumps: those before the first setting, and one near the end. */
async function hashOf(stream) {
  const hash = createHash('sha1');
  const edge = 4096;
  let head = null;
  let rest = Buffer.alloc(0);
  for await (const piece of stream) {
    rest = Buffer.concat([rest, piece]);
    if (head === null) {
      const begin = rest.indexOf('\nSET ');
      if (begin < 0 && rest.length < edge) continue;
      head = rest.subarray(0, Math.max(0, begin));
      rest = rest.subarray(head.length);
    }
    const kept = Math.max(0, rest.length - edge);
    hash.update(rest.subarray(0, kept));
    rest = rest.subarray(kept);
  }
  return hash.digest('hex') + comparable(head) + comparable(rest);
}

function comparable(bytes) {
  return bytes
    .toString('latin1')
    .replace(/^-- Dumped (from|by) .*$/gm, '')
    .replace(/^\\(un)?restrict .*$/gm, '');
}

function findNative() {
  const { stdout } = spawnSync('pg_dump', ['--version'], { encoding: 'utf8' });
  return Number(/(\d+)/.exec(stdout ?? '')?.[1] ?? 0) >= 18;
}
