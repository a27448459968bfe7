// Compares two versions: this one and an earlier one take turns under the same loads, and the last column says which figures
// differ by more than noise. Exits with status 1 if one became worse.
// npm run bench -- --compare <what> [--turns 9] [--seconds 3] [--connections 32] [--loads "Q1,page"] [--save <file>]
// <what>: a commit, the folder of a compiled checkout, or a file that --save wrote: the commit in it is compared again.
// Needs wrk.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buildVersion } from '../scripts/build-version.mjs';
import { lastId, makeTables, statements } from './items.mjs';
import { median, needTools, queryRequest, ratios, startService, stop, wrk } from './load.mjs';
import { askAtRandom, makeSmallProject } from './many-projects.mjs';
import { fewestTurns, intervalOf, movedBeyondNoise } from './noise.mjs';
import { readOptions } from './options.mjs';
import { postmasterOf, withCpuMs } from './processes.mjs';
import { perSecond, tableOf } from './report.mjs';

const options = readOptions({
  compare: { quick: null, full: null, what: 'a commit, a compiled checkout, or a file that --save wrote' },
  turns: { quick: fewestTurns, full: 9 },
  seconds: { quick: 1, full: 3 },
  connections: 32,
  loads: { quick: null, full: null, what: 'the names of the loads to measure, separated by commas' },
  save: { quick: null, full: null, what: 'a file for the figures' },
});
needTools('wrk');
if (options.turns < fewestTurns) throw new Error(`--turns must be at least ${fewestTurns}.`);

/** A row for the table endpoint. */
const row = `{"item":' .. math.random(1, ${lastId}) .. ',"note":"bench"}`;
const post = (target, body) => `return wrk.format('POST', '${target}', headers, '${body}')`;
const all = {
  Q1: (at) => queryRequest(statements.Q1, { target: `'${at}/query'` }),
  Q2: (at) => queryRequest(statements.Q2, { target: `'${at}/query'` }),
  Q3: (at) => queryRequest(statements.Q3, { target: `'${at}/query'` }),
  page: (at) =>
    `return wrk.format('GET', '${at}/tables/items?limit=50&id=gte.' .. math.random(1, ${lastId}), headers)`,
  'insert by query': (at) => queryRequest(statements.Q4, { target: `'${at}/query'` }),
  'insert by table': (at) => post(`${at}/tables/sales`, row),
  'insert near a limit': (at) => queryRequest(statements.Q4, { target: `'${at}/query'` }),
};
const inMany = 'Q1 in many projects';
const manyCount = 100;
const known = [...Object.keys(all), inMany];
const wanted = options.loads?.split(',').map((name) => name.trim()) ?? known;
for (const name of wanted)
  if (!known.includes(name)) throw new Error(`Unknown load "${name}". Known loads: ${known.join(', ')}.`);

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-compare-'));
const stops = [];

async function startSide(name, program) {
  mkdirSync(path.join(folder, name));
  const service = await startService(path.join(folder, name), program);
  stops.push(() => stop(service));
  const small = await service.makeProject('Small', 64);
  for (const statement of makeTables) await service.query(statement);
  await small.query(makeTables.find((text) => text.startsWith('create table sales')));
  await small.query(
    'create table filling as select repeat(md5(n::text), 30) as a from generate_series(1, 25000) as n',
  );
  const many = [];
  if (wanted.includes(inMany))
    while (many.length < manyCount) many.push(await makeSmallProject(service, `Many ${many.length}`));
  return { service, small, many };
}

/** Every figure of one turn. */
function measure({ service, small, many }, load) {
  const project = load === 'insert near a limit' ? small : service;
  const asked =
    load === inMany
      ? askAtRandom(many)
      : {
          headers: `, ['x-api-key'] = '${project.key}'`,
          request: all[load](new URL(project.url).pathname),
        };
  const { own, postgres, requests, rate, ms } = withCpuMs(service.pid, postmasterOf(service.data), () =>
    wrk(folder, `http://127.0.0.1:${service.port}`, {
      ...asked,
      connections: load === 'Q3' ? 4 : options.connections,
      seconds: options.seconds,
    }),
  );
  return { rate, cpu: ((own + postgres) * 1000) / requests, p99: ms[1] };
}

const figures = [
  { name: 'rate', title: 'requests/s', better: 'higher', format: perSecond },
  { name: 'cpu', title: 'CPU µs', better: 'lower', format: (value) => value.toFixed(0) },
  { name: 'p99', title: 'p99 ms', better: 'lower', format: (value) => value.toPrecision(3) },
];

const earlier = findEarlier(options.compare);
const rows = [];
const saved = {};
let worse = 0;
try {
  const sides = {
    now: await startSide('now'),
    before: await startSide('before', earlier.program),
  };
  for (const load of wanted) {
    const turns = { now: [], before: [] };
    for (let turn = -1; turn < options.turns; turn++) {
      // Each side goes first in every other turn: what runs second finds a warmer machine, or a more tired one.
      const order = turn % 2 === 0 ? ['now', 'before'] : ['before', 'now'];
      for (const side of order) {
        const result = measure(sides[side], load);
        // The first turn opens connections and compiles code.
        if (turn >= 0) turns[side].push(result);
      }
      // Otherwise the small project becomes full.
      if (load === 'insert near a limit')
        for (const { small } of Object.values(sides)) await small.query('truncate sales');
    }
    saved[load] = {};
    for (const { name, title, better, format } of figures) {
      const [now, before] = [turns.now, turns.before].map((list) => list.map((one) => one[name]));
      const found = ratios(now, before);
      const moved = movedBeyondNoise(found);
      if (moved && moved !== better) worse++;
      saved[load][name] = { now: median(now), before: median(before), ratio: median(found) };
      rows.push([
        ...[load, title, format(median(now)), format(median(before)), median(found).toFixed(2)],
        intervalOf(found)
          .map((value) => value.toFixed(2))
          .join('–'),
        moved ? (moved === better ? 'better' : '**worse**') : '',
      ]);
    }
  }
} finally {
  for (const end of stops.reverse()) await end();
  rmSync(folder, { recursive: true, force: true });
}
const header = ['load', 'figure', 'this version', earlier.name, '×', 'interval (99 %)', 'moved'];
console.log(tableOf(header, rows));
const dirty = git('status', '--porcelain') === '' ? '' : ', with uncommitted changes';
console.log(`\nThis version: ${git('rev-parse', '--short', 'HEAD')}${dirty}. ${options.turns} turns each.`);
if (options.save)
  writeFileSync(
    options.save,
    `${JSON.stringify({ commit: git('rev-parse', 'HEAD'), figures: saved }, null, 2)}\n`,
  );
if (worse > 0) {
  console.error(`${worse} ${worse === 1 ? 'figure has' : 'figures have'} become worse.`);
  process.exitCode = 1;
}

/** The compiled program of what --compare names, and its name in the table. */
function findEarlier(what) {
  if (!what) throw new Error('Name a commit, a folder or a file: npm run bench -- --compare <what>');
  if (existsSync(what) && statSync(what).isDirectory()) {
    const program = path.resolve(what, 'packages/server/dist/main.js');
    if (!existsSync(program))
      throw new Error(`${what} holds no compiled checkout: run npm start in it once.`);
    return { name: 'the other', program };
  }
  const commit = existsSync(what) ? JSON.parse(readFileSync(what, 'utf8')).commit : what;
  const found = git('rev-parse', '--short', '--verify', '--quiet', `${commit}^{commit}`);
  console.log(`Compiling ${found} …`);
  return { name: found, program: buildVersion(found) };
}

function git(...args) {
  try {
    return execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8' }).trim();
  } catch {
    throw new Error(`git ${args.join(' ')} failed. Does the commit exist in this checkout?`);
  }
}
