// Compares sign-ins per second, of users and of members at the console, to the hashes per second that the machine can compute.
// Then measures how much a flood of sign-ins by 500 and by 24 clients slows down queries, in the same project and in another one,
// compared to none and to a control: as many requests per second from as many connections, for which nothing is hashed, because the
// clients take a part of the machine, too. All connections are open before the measurement begins. The clients of the flood run on the
// same machine, with a lower priority than the service (signins.mjs).
// npm run bench -- users [--seconds 10] [--repeats 3] [--clients 500,24] [--flood-only] [--quick] [--write]
import { execFile, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { availableParallelism, loadavg, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { median, ratio, startService, stop } from './load.mjs';
import { readOptions } from './options.mjs';
import { report } from './report.mjs';

const {
  quick,
  write,
  seconds,
  repeats,
  clients,
  'flood-only': floodOnly,
} = readOptions({
  // Shorter, a machine that does other things completes too few for a rate.
  seconds: { quick: 4, full: 10 },
  repeats: { quick: 1, full: 3 },
  clients: [500, 24],
  'flood-only': { quick: false, full: false, what: 'only the flood, without the rates of sign-ins' },
});
const cores = availableParallelism();
/** The flood runs for so long before queries are measured. */
const settleMs = 1_500;
const password = 'correct horse battery';
const emails = Array.from({ length: 16 }, (_, n) => `user${n}@example.com`);
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-users-'));

/** Runs another program of this folder and parses the JSON that it prints. */
async function run(script, argument, env = {}) {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [path.join(import.meta.dirname, script), argument],
    { env: { ...process.env, ...env } },
  );
  return JSON.parse(stdout);
}

/** Hashes per second on all cores of an idle machine. */
async function limit() {
  return (await run('pbkdf2.mjs', String(seconds), { UV_THREADPOOL_SIZE: String(cores) })).rate;
}

function signIns({ url, key }, clients, time, waitMs) {
  return run('signins.mjs', JSON.stringify({ url, key, emails, password, clients, seconds: time, waitMs }));
}

/** Resolves once all connections are open. `rate`: of the control; null: people sign in. */
async function openFlood({ url, key }, clients, rate) {
  const time = seconds + settleMs / 1000 + 0.5;
  const form = { url, key, emails, password, clients, seconds: time, waitMs: null, rate };
  const child = fork(path.join(import.meta.dirname, 'signins.mjs'), [JSON.stringify(form)]);
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`The clients of the flood ended with ${code}.`);
  });
  failed.catch(() => {});
  const told = () => Promise.race([once(child, 'message').then(([message]) => message), failed]);
  await told();
  return () => {
    const ended = told();
    child.send('begin');
    return ended;
  };
}

const connections = new Agent({ keepAlive: true });

/** On a connection that is kept, as an application's. Resolves once the whole answer has come. */
function query({ url, key }) {
  const body = Buffer.from(
    JSON.stringify({
      query: 'select id, name from items where id = $1',
      params: [1 + Math.floor(Math.random() * 1000)],
    }),
  );
  const headers = { 'x-api-key': key, 'content-type': 'application/json', 'content-length': body.length };
  return new Promise((resolve, reject) => {
    const sent = request(`${url}/query`, { method: 'POST', agent: connections, headers }, (response) => {
      response.resume();
      response.on('end', () =>
        response.statusCode === 200 ? resolve() : reject(new Error(`A query got ${response.statusCode}.`)),
      );
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** Milliseconds of each query. A query is sent every 5 ms, even if earlier ones are not answered yet. */
async function latencies(projects) {
  const samples = projects.map(() => []);
  const asked = [];
  const end = performance.now() + seconds * 1000;
  const ask = async (n) => {
    const before = performance.now();
    await query(projects[n]);
    samples[n].push(performance.now() - before);
  };
  for (let turn = 0; performance.now() < end; turn++) {
    asked.push(ask(turn % projects.length));
    await sleep(5);
  }
  await Promise.all(asked);
  return samples.map((list) => ({ p50: at(0.5, list), p99: at(0.99, list) }));
}

async function beside(projects, target, clients, rate) {
  const begin = await openFlood(target, clients, rate);
  const flooding = begin();
  await sleep(settleMs);
  const times = await latencies(projects);
  return [times, await flooding];
}

/** What the machine did for others, in hundredths of a second since it started. Null where nothing tells. */
function stolen() {
  try {
    const fields = readFileSync('/proc/stat', 'latin1').split('\n')[0].split(/ +/).slice(1).map(Number);
    return { stolen: fields[7], total: fields.slice(0, 8).reduce((sum, one) => sum + one, 0) };
  } catch {
    return null;
  }
}

function at(share, list) {
  return list.toSorted((a, b) => a - b)[Math.floor(list.length * share)];
}

/** People who accept an invitation, as the page of the console does. */
async function makeMembers({ port, asAccount }) {
  const origin = `http://127.0.0.1:${port}`;
  const headers = { 'content-type': 'application/json', origin, 'sec-fetch-site': 'same-origin' };
  for (const email of emails) {
    const { link } = await asAccount('POST', '/account/invitations', { email, role: 'viewer' });
    const accepted = await fetch(`${origin}/console/invitation/accept`, {
      method: 'POST',
      headers: { ...headers, 'sec-fetch-mode': 'cors', 'sec-fetch-dest': 'empty' },
      body: JSON.stringify({ code: link.split('#invitation=')[1], password }),
    });
    if (!accepted.ok) throw new Error(await accepted.text());
  }
  return { url: origin };
}

const loadBefore = loadavg()[0];
const stolenBefore = stolen();
const ours = await startService(folder);
const rows = [];
try {
  const projects = [ours, await ours.makeProject('Neighbour')];
  for (const project of projects) {
    await project.query('create table items (id bigint primary key, name text)');
    await project.query(`insert into items select n, 'Item ' || n from generate_series(1, 1000) as n`);
  }
  for (const email of emails) await ours.call('POST', '/auth/signup', { email, password });
  await latencies(projects);

  if (!floodOnly) await measureRates();
  for (const count of clients) await measureFlood(projects, count);
} finally {
  await stop(ours);
  rmSync(folder, { recursive: true, force: true });
}
const now = stolen();
const notes = [
  'The control: as many requests per second from as many connections, with a valid key, refused for their form.',
  `Load average before: ${loadBefore.toFixed(2)}.`,
];
if (now && stolenBefore) {
  const share = (now.stolen - stolenBefore.stolen) / (now.total - stolenBefore.total);
  notes.push(`Processor time that the host took away meanwhile: ${(100 * share).toFixed(1)} %.`);
}
report(
  'users',
  ['', 'alone', 'control', 'with sign-ins', 'control / alone', 'sign-ins / alone', 'sign-ins / control'],
  rows,
  write,
  { notes, bars: { column: 'sign-ins / alone', label: 'with sign-ins / alone', mark: 1 } },
);

async function measureRates() {
  const limits = [await limit()];
  const rates = [];
  for (let repeat = 0; repeat < repeats; repeat++) {
    // Enough clients to keep all slots busy, and few enough that none waits long.
    rates.push((await signIns(ours, 3 * cores, seconds, 100)).rate);
    limits.push(await limit());
  }
  // The machine's speed changes over time: each turn is compared to the hash rate measured before and after it.
  const around = rates.map((_, turn) => (limits[turn] + limits[turn + 1]) / 2);
  rows.push([
    'sign-ins per second (alone: PBKDF2 on all cores)',
    median(around).toFixed(2),
    '',
    median(rates).toFixed(2),
    '',
    ratio(rates, around).toFixed(2),
    '',
  ]);

  const members = await makeMembers(ours);
  const [memberRates, memberLimits] = [[], [await limit()]];
  for (let repeat = 0; repeat < repeats; repeat++) {
    memberRates.push((await signIns(members, 3 * cores, seconds, 100)).rate);
    memberLimits.push(await limit());
  }
  const memberAround = memberRates.map((_, turn) => (memberLimits[turn] + memberLimits[turn + 1]) / 2);
  rows.push([
    "members' sign-ins per second (alone: PBKDF2 on all cores)",
    median(memberAround).toFixed(2),
    '',
    median(memberRates).toFixed(2),
    '',
    ratio(memberRates, memberAround).toFixed(2),
    '',
  ]);
}

async function measureFlood(projects, count) {
  const turns = { alone: [], control: [], flooded: [] };
  const answers = { done: 0, refused: 0, rates: [], controlRates: [] };
  const pause = () => sleep(quick ? 1_000 : 2_000);
  for (let repeat = 0; repeat < repeats; repeat++) {
    turns.alone.push(await latencies(projects));
    const [flooded, flood] = await beside(projects, ours, count, null);
    turns.flooded.push(flooded);
    await pause();
    const [refused, control] = await beside(projects, ours, count, flood.requestsPerSecond);
    turns.control.push(refused);
    answers.done += flood.done;
    answers.refused += flood.refused;
    answers.rates.push(flood.requestsPerSecond);
    answers.controlRates.push(control.requestsPerSecond);
    await pause();
  }
  for (const [n, where] of ['same project', 'another project'].entries())
    for (const part of ['p50', 'p99']) {
      const [alone, control, flooded] = [turns.alone, turns.control, turns.flooded].map((list) =>
        list.map((turn) => turn[n][part]),
      );
      rows.push([
        `${count} clients: query, ${where}, ${part}`,
        ...[alone, control, flooded].map((list) => `${median(list).toFixed(2)} ms`),
        ratio(control, alone).toFixed(2),
        ratio(flooded, alone).toFixed(2),
        ratio(flooded, control).toFixed(2),
      ]);
    }
  rows.push([
    `${count} clients: requests per second`,
    '',
    median(answers.controlRates).toFixed(1),
    `${median(answers.rates).toFixed(1)}; 200 / 429: ${answers.done} / ${answers.refused}`,
    '',
    '',
    '',
  ]);
}
