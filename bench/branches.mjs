// Branches a project while 8 writers insert into it and 2 into a neighbour: how long the branch takes, how long a write of
// the source waits, the neighbour's slowest request, what it takes on disk, and whether anything failed or was lost. On
// the file system of the temporary folder, with one and with two API processes, and on XFS, which clones files.
// npm run bench -- branches [--quick] [--repeats 5] [--small 89] [--large 857] [--write]. XFS needs root and mkfs.xfs.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { median, startService, stop } from './load.mjs';
import { readOptions } from './options.mjs';
import { report } from './report.mjs';

const { repeats, small, large, write } = readOptions({
  repeats: { quick: 1, full: 5 },
  small: { quick: 89, full: 89, what: 'MB of the project that is copied' },
  large: { quick: 200, full: 857, what: 'MB of the project that is cloned' },
});
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-branches-'));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const limitMb = 8000;
/** With the primary key. */
const rowsPerMb = 4500;

/** Inserts one row after the other. The id says who wrote it and in which order. */
function startWriters(project, count, first) {
  const acknowledged = [];
  const failures = [];
  const requests = [];
  let isOver = false;
  const writer = async (n) => {
    for (let turn = 0; !isOver; turn++) {
      const id = n * 10_000_000 + turn;
      const from = performance.now();
      try {
        await project.query('insert into ledger (id) values ($1)', { params: [id] });
        acknowledged.push(id);
      } catch (error) {
        failures.push(String(error));
      }
      requests.push([from, performance.now()]);
    }
  };
  const work = Promise.all(Array.from({ length: count }, (_, n) => writer(first + n)));
  return {
    /** The slowest request that was under way since then. */
    slowest: (since) => Math.max(...requests.filter(([, to]) => to >= since).map(([from, to]) => to - from)),
    stop: async () => {
      isOver = true;
      await work;
      return { acknowledged, failures };
    },
  };
}

async function fill(project, mb) {
  await project.query('create table ledger (id bigint primary key)');
  if (mb === 0) return;
  await project.query('create table bulk (id bigint primary key, v text, w bytea)');
  const random = Array.from({ length: 8 }, () => 'md5(random()::text)').join(' || ');
  for (let done = 0; done < mb; done += 50) {
    const [from, to] = [done * rowsPerMb + 1, Math.min(done + 50, mb) * rowsPerMb];
    await project.query(
      `insert into bulk select n, md5(n::text), decode(${random}, 'hex') from generate_series(${from}, ${to}) as n`,
    );
  }
}

const usedMb = (place) => {
  const { blocks, bfree, bsize } = statfsSync(place);
  return ((blocks - bfree) * bsize) / 2 ** 20;
};

async function measure(service, source, neighbour, place) {
  const writers = startWriters(source, 8, 1);
  const beside = startWriters(neighbour, 2, 101);
  await sleep(2_000);
  const before = usedMb(place);
  const since = performance.now();
  const { project } = await service.asAccount('POST', `/projects/${source.slug}/branches`, {
    name: 'Branch',
  });
  const ms = performance.now() - since;
  const disk = usedMb(place) - before;
  await sleep(1_000);
  const figures = { ms, pause: writers.slowest(since), neighbour: beside.slowest(since), disk };
  const [mine, theirs] = [await writers.stop(), await beside.stop()];
  const { rows } = await source.query('select id from ledger');
  const stored = new Set(rows.map(({ id }) => id));
  const lost = mine.acknowledged.filter((id) => !stored.has(id)).length;
  await source.query('truncate ledger');
  await neighbour.query('truncate ledger');
  await service.asAccount('DELETE', `/projects/${project.slug}`);
  return { ...figures, failed: mine.failures.length + theirs.failures.length, lost };
}

async function run(name, place, mb, env, goals) {
  const service = await startService(place, undefined, env);
  try {
    const neighbour = await service.makeProject('Neighbour', limitMb);
    const source = await service.makeProject('Source', limitMb);
    await fill(neighbour, 0);
    await fill(source, mb);
    // Sizes are measured every few seconds.
    await sleep(6_000);
    const size = (await service.asAccount('GET', `/projects/${source.slug}`)).project.size_mb;
    const turns = [];
    // The first turn warms up both projects and is not counted.
    for (let turn = -1; turn < repeats; turn++) {
      const figures = await measure(service, source, neighbour, place);
      if (turn >= 0) turns.push(figures);
    }
    const of = (part, digits = 0) => {
      const list = turns.map((turn) => turn[part]);
      const most = Math.max(...list);
      return `${median(list).toFixed(digits)} (${most.toFixed(digits)})`;
    };
    const sum = (part) => String(turns.reduce((total, turn) => total + turn[part], 0));
    return [
      name,
      size.toFixed(0),
      of('ms'),
      of('pause'),
      of('neighbour'),
      of('disk', 1),
      sum('failed'),
      sum('lost'),
      goals,
    ];
  } finally {
    await stop(service);
  }
}

/** A loop-mounted XFS that clones files, or null where that cannot be made. */
function mountXfs() {
  if (process.getuid?.() !== 0 || spawnSync('mkfs.xfs', ['-V']).error) return null;
  const image = path.join(folder, 'xfs.img');
  const place = path.join(folder, 'xfs');
  mkdirSync(place);
  try {
    execFileSync('truncate', ['-s', '8G', image]);
    execFileSync('mkfs.xfs', ['-q', '-m', 'reflink=1', image]);
    execFileSync('mount', ['-o', 'loop', image, place]);
    return place;
  } catch (error) {
    console.warn(`XFS is left out: ${error.message}`);
    return null;
  }
}

const rows = [];
let xfs = null;
try {
  const here = (name) => {
    const place = path.join(folder, name);
    mkdirSync(place);
    return place;
  };
  const goals = '≤ 1 s, pause ≤ 500, neighbour ≤ 250';
  rows.push(await run('copied, 1 process', here('one'), small, {}, goals));
  rows.push(await run('copied, 2 processes', here('two'), small, { ROWHOUSE_WORKERS: '2' }, goals));
  xfs = mountXfs();
  if (xfs) {
    const place = path.join(xfs, 'data');
    mkdirSync(place);
    // The service runs PostgreSQL as another account, which must be able to enter.
    execFileSync('chmod', ['755', folder, xfs, place]);
    rows.push(
      await run('cloned on XFS, 1 process', place, large, {}, '≤ 1 s, pause ≤ 400, ≤ 5 MB, neighbour ≤ 250'),
    );
  }
} finally {
  if (xfs) execFileSync('umount', ['-l', xfs]);
  rmSync(folder, { recursive: true, force: true });
}
report(
  'branches',
  [
    'median (slowest)',
    'MB',
    'branch, ms',
    'slowest write of the source, ms',
    'slowest write of a neighbour, ms',
    'disk, MB',
    'failed',
    'lost',
    'goal',
  ],
  rows,
  write,
  {
    notes: [
      '8 writers insert one row at a time into the source, 2 into the neighbour, through the API, from before the branch until a second after it.',
      'The disk is what the file system reports, with the WAL of the writers.',
    ],
  },
);
