// Compares sign-ins per second, of users and of members at the console, to the hashes per second that the machine can compute.
// Then measures how much a flood of 500 concurrent sign-ins slows down queries, in the same project and in another one, compared to
// none and to a flood that is refused before anything is hashed: the clients take a part of the machine, too.
// The clients of the flood run on the same machine, with a lower priority than the service (signins.mjs).
// npm run bench -- users [--seconds 10] [--repeats 3] [--quick] [--write]
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { median, ratio, startService, stop } from './load.mjs';
import { readOptions } from './options.mjs';
import { report } from './report.mjs';

const { quick, write, seconds, repeats } = readOptions({
  // Shorter, a machine that does other things completes too few for a rate.
  seconds: { quick: 4, full: 10 },
  repeats: { quick: 1, full: 3 },
});
const cores = availableParallelism();
const arrivalMs = 2_000;
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

/**
 * Milliseconds of each query. A query is sent every 5 ms, even if earlier ones are not answered yet. Those of the first two seconds
 * are `arrival`, the others `later`: 500 connections that open at once cost more than what they ask for afterwards.
 */
async function latencies(projects) {
  const samples = projects.map(() => ({ arrival: [], later: [] }));
  const asked = [];
  const start = performance.now();
  const end = start + seconds * 1000;
  const ask = async (n) => {
    const before = performance.now();
    await projects[n].query('select id, name from items where id = $1', {
      params: [1 + Math.floor(Math.random() * 1000)],
    });
    samples[n][before - start < arrivalMs ? 'arrival' : 'later'].push(performance.now() - before);
  };
  for (let turn = 0; performance.now() < end; turn++) {
    asked.push(ask(turn % projects.length));
    await sleep(5);
  }
  await Promise.all(asked);
  return samples.map(({ arrival, later }) => ({
    p50: at(0.5, later),
    p99: at(0.99, later),
    'p99 while they arrive': at(0.99, arrival),
  }));
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
    median(rates).toFixed(2),
    ratio(rates, around).toFixed(2),
    '',
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
    median(memberRates).toFixed(2),
    ratio(memberRates, memberAround).toFixed(2),
    '',
    '',
  ]);

  const before = [];
  const unhashed = [];
  const during = [];
  let done = 0;
  let refused = 0;
  const pause = () => sleep(quick ? 1_000 : 3_000);
  const beside = (target) => Promise.all([latencies(projects), signIns(target, 500, seconds + 2, null)]);
  for (let repeat = 0; repeat < repeats; repeat++) {
    before.push(await latencies(projects));
    // With a key that is not valid, as many requests come and are refused, and nothing is hashed.
    const [refusedOnly] = await beside({ ...ours, key: `rh_${'x'.repeat(40)}` });
    unhashed.push(refusedOnly);
    await pause();
    const [flooded, answers] = await beside(ours);
    during.push(flooded);
    done += answers.done;
    refused += answers.refused;
    await pause();
  }
  for (const [n, where] of ['same project', 'another project'].entries()) {
    for (const part of ['p50', 'p99', 'p99 while they arrive']) {
      const [calm, refusals, flooded] = [before, unhashed, during].map((turns) =>
        turns.map((turn) => turn[n][part]),
      );
      rows.push([
        `query, ${where}, ${part}`,
        `${median(calm).toFixed(2)} ms`,
        `${median(flooded).toFixed(2)} ms`,
        ratio(flooded, calm).toFixed(2),
        `${median(refusals).toFixed(2)} ms`,
        ratio(flooded, refusals).toFixed(2),
      ]);
    }
  }
  rows.push(['the flood: 200 / 429', '', `${done} / ${refused}`, '', '', '']);
} finally {
  await stop(ours);
  rmSync(folder, { recursive: true, force: true });
}
report('users', ['', 'alone', 'with sign-ins', 'ratio', 'refused unhashed', 'ratio to these'], rows, write, {
  bars: { column: 'ratio', label: 'with sign-ins / alone', mark: 1 },
});
