// Where the CPU time of Q1 (one row by its key) goes, by perf: in one project, and spread evenly over many. Each statement wakes
// another process of PostgreSQL then, and nothing that it needs is in the processor's caches. Also, how long the service is ready to
// run and waits for a core, and what it would reach with real-time priority, with which it hardly waits.
// npm run bench -- profile [--quick] [--projects 1,100] [--seconds 6] [--repeats 7] [--write]. Needs wrk and perf (Debian:
// linux-perf), and root.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { cleanName, drawFlame, foldStacks } from './flame.mjs';
import { latency, median, needTools, ratios, startService, stop, wrk } from './load.mjs';
import { askAtRandom, makeSmallProject } from './many-projects.mjs';
import { readOptions } from './options.mjs';
import { writeDrawing } from './plot.mjs';
import { familyOf, mayBeRealTime, withRealTime, withWaits } from './processes.mjs';
import { range, report } from './report.mjs';

const options = readOptions({
  projects: { quick: [1, 10], full: [1, 100] },
  seconds: { quick: 1, full: 6 },
  repeats: { quick: 1, full: 7 },
  connections: 32,
});
const { projects: sizes, seconds, repeats } = options;
/** Samples a second on each core. Not a round number, so that it does not keep step with timers. */
const frequency = 1999;
needTools('wrk');
if (spawnSync('perf', ['record', '-a', '-o', '/dev/null', '--', 'true']).status !== 0) {
  console.log('profile: left out. perf is not installed, or may not record all processes of this machine.');
  process.exit();
}
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-profile-'));
// V8 tells perf the names of compiled functions.
const service = await startService(folder, undefined, { NODE_OPTIONS: '--perf-basic-prof-only-functions' });
const profiles = [];
const priorities = [];

try {
  const projects = [];
  for (const size of sizes) {
    while (projects.length < size)
      projects.push(await makeSmallProject(service, `Profiled ${projects.length}`));
    // Opens sessions, and compiles code.
    ask(projects, 2 * seconds);
    profiles.push(await record(projects));
    if (mayBeRealTime()) priorities.push(comparePriorities(projects));
  }
} finally {
  const pids = familyOf(service.pid);
  await stop(service);
  rmSync(folder, { recursive: true, force: true });
  for (const pid of pids) rmSync(`/tmp/perf-${pid}.map`, { force: true });
}

function ask(projects, duration) {
  return wrk(folder, `http://127.0.0.1:${service.port}`, {
    ...askAtRandom(projects),
    connections: options.connections,
    seconds: duration,
  });
}

/** The samples begin after the load and end before it. */
async function record(projects) {
  const file = path.join(folder, `${projects.length}.data`);
  const args = ['record', '-a', '-g', '-F', String(frequency), '-o', file, '--', 'sleep', String(seconds)];
  const perf = spawn('sh', ['-c', 'sleep 1; exec perf "$@"', 'perf', ...args], { stdio: 'ignore' });
  const ended = once(perf, 'exit');
  const { rate } = ask(projects, seconds + 3);
  await ended;
  return { size: projects.length, rate, samples: readSamples(file), stacks: readStacks(file) };
}

/** In turns with the usual priority and with real-time priority, each of which comes first in every second turn. */
function comparePriorities(projects) {
  const sides = { usual: [], realTime: [] };
  const half = Math.max(1, Math.round(seconds / 2));
  const measure = () => withWaits(service.pid, () => ask(projects, half));
  const runs = [
    () => sides.usual.push(measure()),
    () => sides.realTime.push(withRealTime(service.pid, measure)),
  ];
  // What the service knows of the statement expired while the profile was read.
  ask(projects, 2);
  for (let turn = 0; turn < repeats; turn++)
    for (const run of turn % 2 === 0 ? runs : runs.toReversed()) run();
  return { size: projects.length, ...sides };
}

/** As { part, symbol, count }. */
function readSamples(file) {
  const text = execFileSync(
    'perf',
    ['report', '-i', file, '--no-children', '-g', 'none', '-t', '\t', '-F', 'sample,comm,dso,sym'],
    { encoding: 'utf8', maxBuffer: 1e8, stdio: ['ignore', 'pipe', 'ignore'] },
  );
  return text.split('\n').flatMap((line) => {
    const [count, comm, dso, symbol] = line.split('\t').map((cell) => cell.trim());
    if (!/^\d+$/.test(count) || !symbol) return [];
    return [
      { part: partOf(comm, dso), symbol: cleanName(symbol.replace(/^\[.\] /, '')), count: Number(count) },
    ];
  });
}

/** The sampled stacks of the service and PostgreSQL. */
function readStacks(file) {
  const text = execFileSync('perf', ['script', '-i', file, '-F', 'comm,ip,sym'], {
    encoding: 'utf8',
    maxBuffer: 1e9,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const names = { node: 'service', postgres: 'PostgreSQL' };
  return foldStacks(text, (command) => names[command] ?? null);
}

function partOf(comm, dso) {
  if (comm === 'swapper') return 'idle';
  const where = dso.includes('kernel')
    ? 'kernel'
    : /^\[JIT\]|\.map$|^perf-/.test(dso)
      ? 'compiled JavaScript'
      : 'program';
  if (comm === 'node') return where === 'program' ? 'service: Node.js and libraries' : `service: ${where}`;
  if (comm === 'postgres') return `PostgreSQL: ${where}`;
  return comm === 'wrk' ? 'wrk' : 'other processes';
}

/** Microseconds for each request. */
function costOf({ rate, samples }, wanted) {
  const count = samples.filter(wanted).reduce((sum, sample) => sum + sample.count, 0);
  return (count * 1e6) / frequency / (rate * seconds);
}

const us = (value) => `${value.toFixed(1)} µs`;
const parts = [
  'service: Node.js and libraries',
  'service: compiled JavaScript',
  'service: kernel',
  'PostgreSQL: program',
  'PostgreSQL: kernel',
  'wrk',
  'other processes',
  'idle',
];
const [first] = profiles;
const last = profiles.at(-1);
const grown = (side) => {
  const symbols = new Set(
    last.samples.filter(({ part }) => part.startsWith(side)).map(({ symbol }) => symbol),
  );
  return [...symbols]
    .map((symbol) => {
      const isIt = (sample) => sample.part.startsWith(side) && sample.symbol === symbol;
      return { symbol, costs: [costOf(first, isIt), costOf(last, isIt)] };
    })
    .sort((a, b) => b.costs[1] - b.costs[0] - (a.costs[1] - a.costs[0]))
    .slice(0, 8)
    .map(({ symbol, costs }) => [side, symbol.slice(0, 70), ...costs.map(us)]);
};
const countOf = ({ size }) => `${size} ${size === 1 ? 'project' : 'projects'}`;
const draw = (profile) =>
  writeDrawing(
    `profile-${profile.size}`,
    drawFlame(`CPU time of Q1 by stack, ${countOf(profile)}`, profile.stacks),
  );
const priorityRow = ({ size, usual, realTime }) => {
  const rates = [realTime, usual].map((turns) => turns.map(({ rate }) => rate));
  const middle = (turns) => turns.toSorted((a, b) => a.rate - b.rate)[Math.floor(turns.length / 2)];
  const waits = [usual, realTime].map(
    (turns) => `${(median(turns.map(({ waited }) => waited)) * 100).toFixed(0)} %`,
  );
  const speed = [median(ratios(...rates)).toFixed(2), range(ratios(...rates))];
  return [size, ...waits, ...speed, ...[usual, realTime].map((turns) => latency(middle(turns)))];
};
const columns = profiles.map(countOf);
report(
  'profile',
  ['CPU time of a request', ...columns],
  [
    ['requests a second', ...profiles.map(({ rate }) => rate.toFixed(0))],
    ...parts.map((part) => [
      part,
      ...profiles.map((one) => us(costOf(one, (sample) => sample.part === part))),
    ]),
  ],
  options.write,
  {
    tables: [
      {
        title: 'The functions that grow most',
        header: ['', 'function', columns[0], columns.at(-1)],
        rows: ['service', 'PostgreSQL'].flatMap(grown),
      },
      ...(priorities.length > 0
        ? [
            {
              title: 'Waiting for a core, and real-time priority for the thread that answers requests',
              header: [
                'projects',
                'it waits for a core',
                'with real-time priority',
                '× requests a second then',
                'min–max',
                'p50 / p99 ms',
                'p50 / p99 ms then',
              ],
              rows: priorities.map(priorityRow),
            },
          ]
        : []),
    ],
    plots: options.write ? profiles.map(draw) : [],
    notes: [
      `perf record -a -g, ${frequency} samples a second on each core, ${options.connections} connections.`,
    ],
  },
);
