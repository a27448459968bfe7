// Compares Rowhouse to alternatives (peers) on the same machine, the same PostgreSQL server and the same rows: ours and the
// peer in turns, one workload after another. Then measures ours alone by the number of connections. peers/<name>/peer.mjs
// describes each peer; a peer that cannot run is reported with the reason.
// npm run bench -- peers [--quick] [--only directus,sqld] [--seconds 2] [--repeats 5] [--install] [--no-sweep] [--write].
// Needs wrk, psql and pgbench. Peers are installed first, which takes minutes the first time. A quick run includes only the
// peers that need no installation, unless --install or --only is given.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expected, lastId, makeTables, statements } from './items.mjs';
import { median, needTools, ratio, startService, stop, superuserUrl, wrk } from './load.mjs';
import { readOptions } from './options.mjs';
import { ask, emailOf, password, reasonOf, sql, users } from './peers/parts.mjs';
import { reportPeers, workloads } from './peers-report.mjs';
import { cpuMs, familyOf, postmasterOf, residentMb, withCpuMs } from './processes.mjs';
import { perSecond } from './report.mjs';

const options = readOptions({
  only: { quick: null, full: null, what: 'the names of the peers, separated by commas' },
  seconds: { quick: 1, full: 2 },
  repeats: { quick: 1, full: 5 },
  install: { quick: false, full: false, what: 'installs peers in a quick run, too' },
  'no-sweep': { quick: false, full: false, what: 'leaves out the rates by number of connections' },
});
const { seconds, repeats } = options;
const connections = 32;
/** Hashing keeps the cores busy: more clients than this would only wait, and ours would refuse them. */
const signInClients = 2 * availableParallelism();
const sweep = options.quick ? [1, 32, 512] : [1, 8, 32, 128, 512];
/** A quick run leaves out workloads that cost about as much as another one. */
const chosen = options.quick ? ['Q1', 'Q3', 'Q4', 'signin'] : workloads;
needTools('wrk', 'psql', 'pgbench');

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-peers-'));
const here = path.join(import.meta.dirname, 'peers');
// The upper limit (pgbench) and the obvious program come first.
const first = ['pgbench', 'obvious'];
const wanted = options.only?.split(',') ?? (options.quick && !options.install ? first : null);
const names = readdirSync(here, { withFileTypes: true })
  .filter(({ name }) => existsSync(path.join(here, name, 'peer.mjs')) && (!wanted || wanted.includes(name)))
  .map(({ name }) => name)
  .sort((a, b) => first.indexOf(b) - first.indexOf(a) || a.localeCompare(b));

/** Lua for wrk, from a request of an adapter. */
function luaOf({ method, path: target, headers = {}, body }) {
  const quoted = (text) =>
    `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n')}'`;
  const filled = (text) =>
    quoted(text)
      .replaceAll('{id15}', `' .. string.format('%015d', id) .. '`)
      .replaceAll('{id}', "' .. id .. '")
      .replaceAll('{n}', "' .. next() .. '")
      .replaceAll('{user}', `' .. math.random(0, ${users - 1}) .. '`);
  const more = Object.entries(headers).map(([name, value]) => `, [${quoted(name)}] = ${quoted(value)}`);
  return {
    headers: more.join(''),
    // No e-mail address occurs twice, in any run.
    before: `local last = 0\nlocal function next() last = last + 1; return '${process.hrtime.bigint()}x' .. last end`,
    request: `local id = math.random(1, ${lastId}); return wrk.format('${method}', ${filled(target)}, headers${body ? `, ${filled(body)}` : ''})`,
  };
}

/** A single request, with its placeholders filled in. */
function oneOf(request) {
  const filled = (text) =>
    text
      .replaceAll('{id15}', '7'.padStart(15, '0'))
      .replaceAll('{id}', '7')
      .replaceAll('{n}', `${process.hrtime.bigint()}`)
      .replaceAll('{user}', '0');
  return { ...request, path: filled(request.path), ...(request.body && { body: filled(request.body) }) };
}

/** Throws unless the answer has the expected rows, so that no peer is measured while it returns errors. */
async function check(url, workload, request) {
  const answer = await ask(url, oneOf(request));
  const found = answer.split('Item number ').length - 1;
  const wantedRows = expected[workload] ?? 0;
  if (found !== wantedRows || /"errors":\[|"type":"error"/.test(answer)) {
    throw new Error(`${workload}: expected ${wantedRows} rows, got ${found}: ${answer.slice(0, 200)}`);
  }
}

/** The default number of concurrent clients. */
function clientsOf(workload) {
  if (workload.startsWith('sign')) return signInClients;
  // In a short turn, a slow peer would not answer each of 32 clients once.
  return workload === 'Q3' && options.quick ? 4 : connections;
}

function measure(side, workload, { at = clientsOf(workload), time = seconds } = {}) {
  const result = side.measure
    ? side.measure(workload, { seconds: time })
    : measureHttp(side, workload, at, time);
  if (!(result.rate > 0) && !side.mayRefuse) throw new Error(`no answer in ${time} s`);
  return result;
}

function measureHttp(side, workload, at, time) {
  return wrk(folder, side.url, {
    ...luaOf(side.requests[workload]),
    connections: at,
    seconds: time,
    // Programs that hash passwords refuse requests when too many wait: only successful answers count.
    refusals: side.mayRefuse || workload.startsWith('sign'),
  });
}

function memoryOf(side) {
  if (side.pid === null) return null;
  const postgres = new Set(familyOf(postmaster));
  const own = familyOf(side.pid).filter((pid) => !postgres.has(pid));
  return own.map(residentMb).reduce((sum, mb) => sum + mb, 0);
}

/** Waits until the work that a turn left behind is done (disconnected clients, a vacuum): the next turn must not pay for it. */
async function settle(side) {
  const end = performance.now() + 30_000;
  for (let calm = 0; calm < 2 && performance.now() < end; ) {
    const before = cpuMs(side.pid, postmaster);
    await sleep(100);
    const after = cpuMs(side.pid, postmaster);
    calm = after.service - before.service + after.postgres - before.postgres <= 20 ? calm + 1 : 0;
  }
}

/** One turn, with its CPU time and memory. */
async function turnOf(side, workload, settings) {
  const result = withCpuMs(side.pid, postmaster, () => measure(side, workload, settings));
  const requests = Math.max(1, result.requests);
  const memory = memoryOf(side);
  await settle(side);
  return {
    ...result,
    ownUs: (result.own * 1000) / requests,
    postgresUs: (result.postgres * 1000) / requests,
    memory,
  };
}

/**
 * Runs ours and the peer in turns. The first turn is not counted: it opens connections and compiles code. It also determines
 * how long a turn must be for a slow peer, so that each client is answered a few times.
 */
async function compare(ours, peer, workload) {
  const turns = { ours: [], peer: [] };
  let time = options.quick && workload === 'signin' ? 3 : seconds;
  if (!options.quick) {
    const rates = [];
    for (const side of [ours, peer]) {
      rates.push((await turnOf(side, workload, { time: Math.max(seconds, 3) })).rate);
    }
    const slowest = Math.min(...rates);
    time = Math.min(8, Math.max(seconds, Math.ceil((4 * clientsOf(workload)) / slowest)));
  }
  for (let turn = 0; turn < repeats; turn++) {
    for (const [name, side] of Object.entries({ ours, peer })) {
      turns[name].push(await turnOf(side, workload, { time }));
    }
  }
  return turns;
}

/** A separate database for a peer, on the PostgreSQL server of our service. It contains no objects of Rowhouse. */
async function databaseFor(name) {
  const database = `peer_${name.replaceAll('-', '_')}`;
  const [server, url] = [await superuserUrl(service.data), await superuserUrl(service.data, database)];
  sql(server, `create database ${database}`);
  sql(url, ...makeTables);
  return { url, drop: () => sql(server, `drop database if exists ${database} with (force)`) };
}

/** The results of one peer, or the reasons why it could not be measured. */
async function runPeer(name, ours, port) {
  const adapter = await import(`./peers/${name}/peer.mjs`);
  const result = { ...adapter.about, versions: [], measured: {}, problems: [] };
  const own = path.join(folder, name);
  mkdirSync(own, { recursive: true });
  let database = null;
  let peer = null;
  try {
    adapter.install();
    result.versions = adapter.versions();
    database = await databaseFor(name);
    const started = await adapter.start({ databaseUrl: database.url, folder: own, port });
    peer = { url: `http://127.0.0.1:${port}`, mayRefuse: false, ...started };
    result.idleMb = memoryOf(peer);
    const can = peer.workloads ?? Object.keys(peer.requests);
    if (can.includes('signin') && can.includes('signup')) {
      for (let n = 0; n < users; n++) {
        const { body, ...rest } = peer.requests.signup;
        await ask(peer.url, { ...rest, body: body.replaceAll(emailOf('{n}'), emailOf(n)) });
      }
    }
    for (const workload of chosen.filter((one) => can.includes(one))) {
      try {
        for (let n = 0; peer.requests && n < 5; n++) await check(peer.url, workload, peer.requests[workload]);
        result.measured[workload] = await compare(ours, peer, workload);
        const { ours: mine, peer: theirs } = result.measured[workload];
        const [a, b] = [mine, theirs].map((turns) => turns.map(({ rate }) => rate));
        console.log(
          `${result.name} ${workload}: ${perSecond(median(a))} / ${perSecond(median(b))} = ${ratio(a, b).toFixed(2)}`,
        );
      } catch (error) {
        result.problems.push(`${workload}: ${reasonOf(String(error.message))}`);
      }
    }
  } catch (error) {
    result.problems.push(reasonOf(String(error.message) + (error.stderr ? `\n${error.stderr}` : '')));
  } finally {
    await peer?.stop();
    database?.drop();
    rmSync(own, { recursive: true, force: true });
  }
  for (const problem of result.problems) console.log(`${result.name}: ${problem}`);
  return result;
}

/** Measures ours alone, by the number of connections. */
async function sweepOurs(ours) {
  const found = [];
  for (const workload of options.quick ? ['Q1'] : ['Q1', 'Q2', 'Q3', 'Q4', 'page']) {
    const turns = new Map(sweep.map((at) => [at, []]));
    for (let turn = 0; turn < (options.quick ? 1 : Math.min(repeats, 3)); turn++) {
      for (const at of sweep)
        turns.get(at).push(await turnOf({ ...ours, mayRefuse: true }, workload, { at }));
    }
    for (const [at, list] of turns) found.push({ workload, at, turns: list });
  }
  return found;
}

/** Creates projects one after another. Returns the milliseconds of each. */
async function createProjects(ours, count) {
  const times = [];
  for (let n = 0; n < count; n++) {
    const began = performance.now();
    await ours.makeProject(`Bench ${n}`, 64);
    times.push(performance.now() - began);
  }
  return times;
}

const service = await startService(folder);
const postmaster = postmasterOf(service.data);
const target = new URL(service.url).pathname;
const headers = { 'x-api-key': service.key };
const post = (rest, body) => ({ method: 'POST', path: target + rest, headers, body });
const user = (n) => JSON.stringify({ email: emailOf(n), password });
const ours = {
  url: `http://127.0.0.1:${service.port}`,
  pid: service.pid,
  mayRefuse: false,
  makeProject: service.makeProject,
  requests: {
    page: { method: 'GET', path: `${target}/tables/items?limit=50`, headers },
    signup: post('/auth/signup', user('{n}')),
    signin: post('/auth/signin', user('{user}')),
  },
};
for (const [workload, text] of Object.entries(statements)) {
  const params = text.includes('$1') ? '[{id}]' : '[]';
  ours.requests[workload] = post('/query', `{"query":${JSON.stringify(text)},"params":${params}}`);
}

const results = [];
let swept = [];
let created = [];
let memory = null;
try {
  for (const text of makeTables) await service.query(text);
  for (let n = 0; n < users; n++) await service.call('POST', '/auth/signup', { email: emailOf(n), password });
  for (const workload of workloads) await check(ours.url, workload, ours.requests[workload]);
  for (const [n, name] of names.entries())
    results.push(await runPeer(name, ours, service.port + 10 + 10 * n));
  memory = memoryOf(ours);
  created = await createProjects(ours, options.quick ? 5 : 50);
  if (!options['no-sweep']) swept = await sweepOurs(ours);
} finally {
  await stop(service);
  rmSync(folder, { recursive: true, force: true });
}
reportPeers({ results, swept, created, memory }, { ...options, connections, signInClients });
