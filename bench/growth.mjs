// Does speed hold as an installation grows? One row by id (Q1) with 1 to 3,000 projects on the server, requested evenly and
// by Zipf's law, beside the obvious program with a pool for each database; a page of a table with ten thousand to ten
// million rows; start-up time and memory by number of projects.
// npm run bench -- growth [--quick] [--projects 1,100,1000,3000] [--rows 10000,1000000,10000000] [--seconds 3]
// [--repeats 5] [--data folder] [--write]. With --data the projects are kept there for the next run. Needs wrk and pgbench.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { drawGrowth } from './growth-plots.mjs';
import { openInstallation, root } from './installation.mjs';
import { statements } from './items.mjs';
import {
  latency,
  median,
  needTools,
  pgbench,
  queryRequest,
  ratio,
  start,
  stop,
  superuserAddress,
  superuserUrl,
  wrk,
} from './load.mjs';
import { readOptions } from './options.mjs';
import { kernelMs, mayBeRealTime, memoryMb, withCpuMs, withRealTime } from './processes.mjs';
import { range, report } from './report.mjs';

const options = readOptions({
  projects: { quick: [20], full: [1, 100, 1_000, 3_000] },
  rows: { quick: [1_000, 10_000], full: [10_000, 1_000_000, 10_000_000], what: 'rows of the tables' },
  seconds: { quick: 1, full: 3 },
  repeats: { quick: 1, full: 5 },
  connections: 32,
  data: null,
});
const { projects: sizes, rows: tableRows, seconds, repeats } = options;
needTools('wrk', 'pgbench');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-growth-'));
const data = options.data ? path.resolve(options.data) : path.join(folder, 'data');
// The first base backup of so many projects takes minutes and half a core.
const installation = await openInstallation(data, {
  spares: options.quick ? 5 : 50,
  env: { ROWHOUSE_BACKUP_URL: 'off' },
});
const { url, account, call } = installation;

const columns =
  '(id bigint primary key, name text, price numeric(10,2), in_stock boolean, tags jsonb, created_at timestamptz)';
const series = (from, to) =>
  `select n, 'Item number ' || n, (n % 10000) / 100.0, n % 3 = 0, jsonb_build_object('color', 'red', 'sizes', jsonb_build_array(n % 7, n % 11)), timestamptz '2026-01-01' + n * interval '1 minute' from generate_series(${from}, ${to}) as n`;
const rowsEach = 1_000;

/** A project with the same small table as all others. `key` is its project key. */
async function makeProject(slug, limitMb = 512) {
  const { api_key: key } = await call('POST', '/projects', { name: slug, slug, limit_mb: limitMb });
  await call('POST', `/projects/${slug}/query`, { query: `create table items ${columns}` });
  await call('POST', `/projects/${slug}/query`, { query: `insert into items ${series(1, rowsEach)}` });
  return { slug, key };
}

/** The projects of this benchmark, as [slug, id]. */
async function idsOf() {
  const found = [];
  for (let page = 1; ; page++) {
    const { projects, has_more: more } = await call('GET', `/projects?limit=100&page=${page}`);
    for (const { slug, id } of projects) if (/^grow-\d+$/.test(slug)) found.push([slug, id]);
    if (!more) return found;
  }
}

/** Projects that an earlier run left get a new key. */
async function findProjects() {
  const found = (await idsOf()).map(([slug]) => slug);
  found.sort((a, b) => Number(a.slice(5)) - Number(b.slice(5)));
  const kept = [];
  for (const slug of found) {
    const { api_key: key } = await call('POST', `/projects/${slug}/keys/rotate`);
    kept.push({ slug, key });
  }
  return kept;
}

async function makeUpTo(projects, size) {
  let next = projects.length;
  const maker = async () => {
    while (next < size) {
      const n = next++;
      projects[n] = await makeProject(`grow-${n}`);
    }
  };
  await Promise.all([maker(), maker(), maker()]);
}

const sql = statements.Q1;
/** How requests are spread over projects: Lua that runs once, and Lua that returns the number of the next project. */
const spreads = {
  even: (count) => ['', `math.random(1, ${count})`],
  // The n-th most requested project is requested 1/n as often as the first.
  zipf: (count) => [
    `local sums, sum = {}, 0
for n = 1, ${count} do sum = sum + 1 / n; sums[n] = sum end
local function pick()
  local at, low, high = math.random() * sum, 1, ${count}
  while low < high do
    local middle = math.floor((low + high) / 2)
    if sums[middle] < at then low = middle + 1 else high = middle end
  end
  return low
end`,
    'pick()',
  ],
};

const targetOf = ({ slug }) => `${root}/projects/${slug}/query`;

/** Q1 in one project per request, with the project's key or with `key` for all. */
function ask(projects, spread, { duration, key, address = url, target = targetOf }) {
  const [prelude, pick] = spreads[spread](projects.length);
  return wrk(folder, address, {
    before: `${prelude}
local projects = {${projects.map((project) => `{'${target(project)}','${project.key}'}`).join(',')}}`,
    request: `local n = ${pick}
  headers['x-api-key'] = ${key ? `'${key}'` : 'projects[n][2]'}
  ${queryRequest(sql, { highestId: rowsEach, target: 'projects[n][1]' })}`,
    connections: options.connections,
    seconds: duration,
  });
}

async function queryOnce(address, key, body) {
  const response = await fetch(address, {
    method: 'POST',
    headers: { 'x-api-key': key, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(await response.text());
  await response.text();
}

/**
 * The steady state: each project has a session, its rows are in memory, the statement is known, and PostgreSQL uses a generic
 * plan, which it makes at the sixth execution.
 */
async function warmUp(projects, addressOf = ({ slug }) => `${url}/projects/${slug}/query`) {
  const readAll = { query: 'select count(price) from items', params: [] };
  const readOne = Array.from({ length: 7 }, (_, round) => ({
    query: sql,
    params: [1 + Math.floor((round * rowsEach) / 7)],
  }));
  for (const body of [readAll, ...readOne]) {
    const next = projects.values();
    const client = async () => {
      for (const project of next) await queryOnce(addressOf(project), project.key, body);
    };
    await Promise.all(Array.from({ length: 4 }, client));
  }
}

/**
 * The upper limit: pgbench with the same statement and this many clients in one project's database. Each client has a
 * process in PostgreSQL, which sleeps and must be woken for each statement.
 */
async function limitOf(clients) {
  const { project } = await call('GET', '/projects/grow-0');
  // pgbench's duration includes opening its connections; the rate that it reports does not.
  const time = seconds + Math.ceil(clients / 60);
  const load = { seconds: time, highestId: rowsEach, clients, threads: 2 };
  return pgbench(folder, await superuserUrl(data, `p_${project.id}`), sql, load).rate;
}

/** The obvious program with a pool for each of these databases, warmed up. `ask` measures it like ours. */
async function openObvious(projects) {
  const port = String(installation.port + 1);
  const env = { SERVER_URL: await superuserUrl(data), PORT: port };
  const program = await start('bench/peers/obvious/many.mjs', env, /ready/);
  const ids = new Map(await idsOf());
  const address = `http://127.0.0.1:${port}`;
  const target = ({ slug }) => `/p_${ids.get(slug)}/query`;
  await warmUp(projects, (project) => address + target(project));
  return {
    ask: (spread, duration) => ask(projects, spread, { address, target, duration }),
    close: () => stop(program),
  };
}

/** The least that a Node.js program can do for these databases. */
async function openRelay(projects) {
  const port = String(installation.port + 2);
  const { socket, user, password, port: databasePort } = await superuserAddress(data);
  const program = await start(
    'bench/peers/obvious/relay.mjs',
    {
      SOCKET: path.dirname(socket),
      DATABASE_PORT: String(databasePort),
      DATABASE_USER: user,
      PASSWORD: password,
      STATEMENT: sql,
      PORT: port,
    },
    /ready/,
  );
  const ids = new Map(await idsOf());
  const address = `http://127.0.0.1:${port}`;
  const target = ({ slug }) => `/p_${ids.get(slug)}/query`;
  const relay = {
    pid: program.child.pid,
    ask: (some, duration) => ask(some, 'even', { address, target, duration }),
    close: () => stop(program),
  };
  // Opens the connections, and runs each statement often enough for a generic plan.
  relay.ask(projects, 2 + Math.ceil(projects.length / 150));
  return relay;
}

/** Up to this many projects, PostgreSQL accepts the connections of both programs at the same time. */
const inTurnsUpTo = 1_000;

/** For more projects. A restart of the service closes its connections first. */
async function obviousAlone(projects) {
  await installation.stop();
  await installation.start();
  const obvious = await openObvious(projects);
  try {
    const rates = (spread) => Array.from({ length: repeats }, () => obvious.ask(spread, seconds).rate);
    return { even: rates('even'), zipf: rates('zipf') };
  } finally {
    await obvious.close();
  }
}

/**
 * Runs all in turns, and compares them to the first of `runs`, or to `baseOf` a name. Neither the first turn nor the first second of
 * each is counted. `pidOf`: the process whose CPU time is measured.
 */
function inTurns(runs, { pidOf = () => installation.pid(), baseOf = () => Object.keys(runs)[0] } = {}) {
  const measured = Object.fromEntries(Object.keys(runs).map((name) => [name, []]));
  for (let turn = -1; turn < repeats; turn++)
    for (const [name, run] of Object.entries(runs)) {
      // A second of the same load first: the service's knowledge of the statement expires during the other turns.
      run(1);
      const result = withCpuMs(pidOf(name), installation.postmaster(), () => {
        const [kernelBefore, began] = [kernelMs(), performance.now()];
        const answered = run(seconds);
        const tookMs = performance.now() - began;
        return { ...answered, kernel: (kernelMs() - kernelBefore) / tookMs };
      });
      if (turn >= 0) measured[name].push(result);
    }
  const rates = (results) => results.map(({ rate }) => rate);
  return Object.entries(measured).map(([name, results]) => {
    const byRate = [...results].sort((a, b) => a.rate - b.rate);
    return {
      name,
      rates: rates(results),
      rate: median(rates(results)),
      ratio: ratio(rates(results), rates(measured[baseOf(name)])),
      spread: range(rates(results), 0),
      middle: byRate[Math.floor(byRate.length / 2)],
      kernel: median(results.map(({ kernel }) => kernel)),
      cpu: ['own', 'postgres'].map((part) =>
        Math.round(
          (results.reduce((sum, result) => sum + result[part], 0) * 1000) /
            results.reduce((sum, result) => sum + result.rate * seconds, 0),
        ),
      ),
    };
  });
}

function rowOf(what, { rate, ratio: against, spread, middle, cpu, kernel }, goal = '') {
  // If the machine did nothing but PostgreSQL's part of each request.
  const most = ((availableParallelism() * 1e6) / cpu[1]).toFixed(0);
  return [
    what,
    rate.toFixed(0),
    spread,
    against.toFixed(2),
    goal,
    latency(middle),
    `${cpu.join(' + ')} µs`,
    most,
    `${(kernel * 100).toFixed(0)} %`,
  ];
}

const realTime = (run) => withRealTime(installation.pid(), run);
const names = {
  one: 'one of them',
  even: 'evenly',
  zipf: "by Zipf's law",
  account: 'evenly, account key',
  oneRealTime: 'one of them, real-time priority',
  evenRealTime: 'evenly, real-time priority',
  zipfRealTime: "by Zipf's law, real-time priority",
  first: 'first page',
  deep: 'page by cursor in the middle',
};
const goals = { even: { 100: 0.45, 1000: 0.35, 3000: 0.25 }, zipf: { 100: 0.7, 1000: 0.55, 3000: 0.4 } };
const speeds = [];
/** Also printed at once: the whole run takes an hour. */
const addSpeed = (row) => {
  speeds.push(row);
  console.error(row.join(' · '));
};
const beside = [];
const states = [];
const limits = [];
const leasts = [];
const points = { projects: [], rows: [], state: [] };

async function growProjects() {
  await installation.start();
  const projects = await findProjects();
  for (const size of sizes) {
    await makeUpTo(projects, size);
    await installation.settle();
    await installation.crash();
    const crashMs = await installation.start();
    await installation.sparesReady();
    await installation.stop();
    const startMs = await installation.start();
    const some = projects.slice(0, size);
    const atStart = memoryMb(installation.pid(), installation.postmaster());
    const [few, many] = [await limitOf(10), size > 10 ? await limitOf(size) : null];
    if (many) limits.push([size, few.toFixed(0), many.toFixed(0), (many / few).toFixed(2)]);
    // This process was blocked while pgbench ran: only now it learns which connections ended with the previous service.
    await sleep(100);
    await warmUp(some);
    const together = size <= inTurnsUpTo;
    const obvious = together ? await openObvious(some) : null;
    const relay = together ? await openRelay(some) : null;
    const runs = {
      one: (duration) => ask(some.slice(0, 1), 'even', { duration }),
      even: (duration) => ask(some, 'even', { duration }),
      ...(obvious && { obviousEven: (duration) => obvious.ask('even', duration) }),
      ...(relay && {
        relayOne: (duration) => relay.ask(some.slice(0, 1), duration),
        relayEven: (duration) => relay.ask(some, duration),
      }),
      zipf: (duration) => ask(some, 'zipf', { duration }),
      ...(obvious && { obviousZipf: (duration) => obvious.ask('zipf', duration) }),
      account: (duration) => ask(some, 'even', { key: account, duration }),
      ...(mayBeRealTime() && {
        oneRealTime: (duration) => realTime(() => ask(some.slice(0, 1), 'even', { duration })),
        evenRealTime: (duration) => realTime(() => ask(some, 'even', { duration })),
        zipfRealTime: (duration) => realTime(() => ask(some, 'zipf', { duration })),
      }),
    };
    let measured;
    try {
      measured = inTurns(runs, {
        pidOf: (name) => (name.startsWith('relay') ? relay.pid : installation.pid()),
        baseOf: (name) => (name.endsWith('RealTime') ? 'oneRealTime' : 'one'),
      });
    } finally {
      await obvious?.close();
      await relay?.close();
    }
    const results = measured.filter(({ name }) => name in names);
    await sleep(1_000);
    const afterLoad = memoryMb(installation.pid(), installation.postmaster());
    for (const result of results) {
      const goal = goals[result.name]?.[size];
      addSpeed(rowOf(`Q1, ${size} projects, ${names[result.name]}`, result, goal && `≥ ${goal}`));
      points.projects.push({ size, name: result.name, rate: result.rate, ratio: result.ratio });
    }
    const mb = ({ service: own, postgres }) => `${own.toFixed(0)} / ${postgres.toFixed(0)} MB`;
    states.push([size, ...[startMs, crashMs].map((ms) => `${ms.toFixed(0)} ms`), mb(atStart), mb(afterLoad)]);
    points.state.push({ size, startMs, crashMs, atStart, afterLoad });
    if (relay) leasts.push([size, ...leastOf((name) => measured.find((result) => result.name === name))]);
    const ratesOf = (name) => measured.find((result) => result.name === name)?.rates;
    const others = obvious
      ? { even: ratesOf('obviousEven'), zipf: ratesOf('obviousZipf') }
      : await obviousAlone(some);
    const times = ['even', 'zipf'].flatMap((spread) => [
      median(others[spread]).toFixed(0),
      (obvious
        ? ratio(ratesOf(spread), others[spread])
        : median(ratesOf(spread)) / median(others[spread])
      ).toFixed(1),
    ]);
    beside.push([size, obvious ? 'yes' : 'no', ...times, '≥ 3']);
  }
}

/** What the relay reaches, and the part of it that ours reaches. */
function leastOf(find) {
  const [relayOne, relayEven, one, even] = ['relayOne', 'relayEven', 'one', 'even'].map(find);
  const cpu = (result) => `${result.cpu.join(' + ')} µs`;
  return [
    relayOne.rate.toFixed(0),
    relayEven.rate.toFixed(0),
    ratio(relayEven.rates, relayOne.rates).toFixed(2),
    cpu(relayOne),
    cpu(relayEven),
    (relayEven.cpu[0] / relayOne.cpu[0]).toFixed(1),
    (even.cpu[0] / one.cpu[0]).toFixed(1),
    ratio(even.rates, relayEven.rates).toFixed(2),
  ];
}

async function growRows() {
  // The slug of a deleted project stays reserved for a week.
  const slug = `rows-${Date.now()}`;
  const { api_key: key } = await call('POST', '/projects', { name: slug, slug, limit_mb: 20_000 });
  const query = (text) => call('POST', `/projects/${slug}/query`, { query: text, timeout_ms: 300_000 });
  const runs = { first: {}, deep: {} };
  for (const count of tableRows) {
    const table = `t${count}`;
    await query(`drop table if exists ${table}`);
    await query(`create table ${table} ${columns}`);
    for (let from = 1; from <= count; from += 500_000)
      await query(`insert into ${table} ${series(from, Math.min(count, from + 499_999))}`);
    await query(`vacuum analyze ${table}`);
    const middle = Math.max(1, Math.floor(count / 100));
    const { next_cursor: cursor } = await call(
      'GET',
      `/projects/${slug}/tables/${table}?limit=50&page=${middle}`,
    );
    const page = (more) => (duration) =>
      wrk(folder, url, {
        request: `return wrk.format('GET', '${root}/projects/${slug}/tables/${table}?limit=50${more}', { ['x-api-key'] = '${key}' })`,
        connections: options.connections,
        seconds: duration,
      });
    runs.first[count] = page('');
    runs.deep[count] = page(`&cursor=${cursor}`);
  }
  for (const [kind, turns] of Object.entries(runs))
    for (const result of inTurns(turns)) {
      addSpeed(rowOf(`${names[kind]}, ${result.name} rows`, result));
      points.rows.push({ rows: Number(result.name), kind, rate: result.rate, ratio: result.ratio });
    }
  await call('DELETE', `/projects/${slug}`);
}

/** What decides how much the kernel has to do with the pages that thousands of processes share. */
function kernelSettings() {
  const read = (file) => (existsSync(file) ? readFileSync(file, 'utf8').trim() : 'unknown');
  const [, pages = '0'] = /^HugePages_Total:\s+(\d+)/m.exec(read('/proc/meminfo')) ?? [];
  return `${pages} huge pages reserved, vm.compaction_proactiveness ${read('/proc/sys/vm/compaction_proactiveness')}`;
}

try {
  await growProjects();
  if (tableRows.length > 0) await growRows();
} finally {
  await installation.stop();
  rmSync(folder, { recursive: true, force: true });
}

report(
  'growth',
  [
    '',
    'median /s',
    'min–max',
    '× the first',
    'goal',
    'p50 / p99 ms',
    'CPU per request: ours + PostgreSQL',
    'upper limit by PostgreSQL’s part /s',
    'kernel threads, of a core',
  ],
  speeds,
  options.write,
  {
    tables: [
      {
        title: 'Start and memory',
        header: [
          'projects',
          'start',
          'start after kill -9 of both',
          'service / PostgreSQL at start',
          'after the load',
        ],
        rows: states,
      },
      {
        title: 'The obvious program with a pool of two connections for each database',
        header: [
          'projects',
          'in turns with ours',
          'evenly /s',
          'ours ×',
          "by Zipf's law /s",
          'ours ×',
          'goal',
        ],
        rows: beside,
      },
      {
        title: 'The least that a Node.js program needs: a relay without keys, limits and JSON',
        header: [
          'projects',
          'one of them /s',
          'evenly /s',
          '×',
          'CPU, one: relay + PostgreSQL',
          'CPU, evenly',
          'its own CPU ×',
          'our own CPU ×',
          'ours, of the relay evenly',
        ],
        rows: leasts,
      },
      {
        title: 'PostgreSQL alone: pgbench -M prepared with Q1 in one database',
        header: ['clients', 'with 10 clients /s', 'with this many /s', '×'],
        rows: limits,
      },
    ],
    plots: options.write ? drawGrowth(points, names) : [],
    notes: [
      'Backups are off.',
      ...(mayBeRealTime()
        ? [
            'Real-time priority, for the thread that answers requests, shows what is lost by waiting for a core. These rows are compared with the first of them.',
          ]
        : []),
      `Machine: ${kernelSettings()}. Memory in huge pages is not counted.`,
      `Up to ${inTurnsUpTo} projects, the connections of the obvious program and of the relay are open, too, while ours is measured.`,
    ],
  },
);
