// Which of the long tests one run takes, so that they fit its time: first those nearest to the last changes, then others by a hash of
// the commit, so that after some runs each has had its turn. npm run test:shard
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { root } from './setup.mjs';

const folders = ['compatibility', 'packages', 'scripts', 'bench'];
const isTest = /\.test\.(ts|mjs)$/;
/** A whole file, by its name, or single tests of it, by their tag. */
const isLong = (file) => file.includes('.long.') || /\btags: *\[?'long'|\blongIn: '/.test(read(file));
const runsAlone = /\.alone\.test\./;
/** What is planned, of the 25 minutes that a run may take: installs and a busy machine need the rest. */
const plannedS = 18 * 60;
/** For a file that long-tests.json does not know. */
const usualS = 120;
/** Files of a group run beside each other, and two cores let two and a half go on at once. */
const besideEachOther = 2.5;
/** The share of the time for what the changes touch. The rest is for the others, however large a change is. */
const touchedShare = 0.6;
/** Commits of so long a time before the last one count as the change. */
const changeHours = 4;

/**
 * @param files all long tests · `seconds`: how long each took · `changed`: files that the change touches · `importsOf`: what a file
 * imports · `commit`: its hash
 */
export function chooseShard({ files, seconds, changed, importsOf, commit }) {
  const distances = new Map(files.map((file) => [file, distanceOf(file, new Set(changed), importsOf)]));
  const orders = new Map(files.map((file) => [file, hashOf(`${commit} ${file}`)]));
  const byTurn = files.toSorted((one, other) => (orders.get(one) < orders.get(other) ? -1 : 1));
  const touched = byTurn
    .filter((file) => distances.get(file) !== null)
    .toSorted((one, other) => distances.get(one) - distances.get(other));
  const costOf = (file) => (seconds[file] ?? usualS) / (runsAlone.test(file) ? 1 : besideEachOther);
  const chosen = [];
  let left = plannedS;
  const take = (candidates, untilLeft) => {
    for (const file of candidates) {
      // A file that is longer than all the time runs with nothing beside it, when its turn comes first.
      const fits = left - costOf(file) >= untilLeft || chosen.length === 0;
      if (!fits || chosen.includes(file)) continue;
      chosen.push(file);
      left -= costOf(file);
    }
  };
  take(touched, plannedS * (1 - touchedShare));
  take(byTurn, 0);
  return chosen;
}

/** How near a test is to the change. null: not near. */
function distanceOf(file, changed, importsOf) {
  if (changed.has(file)) return 0;
  if (importsOf(file).some((imported) => changed.has(imported))) return 1;
  const room = /^packages\/([^/]+)\/test\/([^/]+)\//.exec(file);
  const source = room && `packages/${room[1]}/src/${room[2]}/`;
  return source && [...changed].some((one) => one.startsWith(source)) ? 2 : null;
}

function hashOf(text) {
  return createHash('sha256').update(text).digest('hex');
}

/** null: this is no checkout, or git is not installed. */
function git(...args) {
  try {
    return execFileSync('git', args, {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    return null;
  }
}

/** The shard of this checkout. */
export function readShard() {
  const all = folders.flatMap(listTests).filter(isLong);
  const seconds = JSON.parse(read('scripts/long-tests.json'));
  // Without a history, every file waits for its turn, and the day takes the place of the commit.
  const [commit, time] = git('log', '-1', '--format=%H %ct')?.split(' ') ?? [new Date().toDateString()];
  const before = time && new Date(Number(time) * 1_000 - changeHours * 3_600_000).toISOString();
  const base = before && git('rev-list', '-1', `--before=${before}`, 'HEAD');
  const changed = base ? (git('diff', '--name-only', base, 'HEAD')?.split('\n') ?? []) : [];
  return { all, chosen: chooseShard({ files: all, seconds, changed, importsOf, commit }) };
}

function listTests(folder) {
  return readdirSync(path.join(root, folder), { recursive: true, withFileTypes: true })
    .filter(
      (entry) => entry.isFile() && isTest.test(entry.name) && !entry.parentPath.includes('node_modules'),
    )
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'))
    .toSorted();
}

const read = (file) => readFileSync(path.join(root, file), 'utf8');

function importsOf(file) {
  return [...read(file).matchAll(/\bfrom '(\.[^']+)'/g)].map(([, from]) =>
    path.posix.join(path.posix.dirname(file), from),
  );
}
