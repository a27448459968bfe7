// Soak test: mixed load over many projects, with hostile statements and clients that disconnect, while PostgreSQL and the
// service are killed. At the end a ledger of every write is compared with the rows: no acknowledged row may be missing, no
// refused row may exist. Memory, connections and open files must not grow in the second half, in which the service itself
// keeps running. Ends with status 1 if any of this fails.
// npm run bench -- soak [--minutes 20] [--quick] [--projects 50] [--clients 16] [--write]
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { start, stop } from './load.mjs';
import { readOptions } from './options.mjs';
import { writePlot } from './plot.mjs';
import { familyOf, memoryMb, openFiles, postmasterOf } from './processes.mjs';
import { report } from './report.mjs';
import { explainFailures, judgeGrowth } from './soak-judgement.mjs';
import { createLedger } from './soak-ledger.mjs';
import { createRequests } from './soak-requests.mjs';
import { hostile } from './soak-statements.mjs';

const options = readOptions({
  minutes: { quick: 0.35, full: 20, what: 'how long the load lasts' },
  projects: { quick: 12, full: 50 },
  clients: 16,
});
const { minutes, projects: projectCount, clients } = options;
const sampleMs = 5_000;

const { makeKey } = await import('../packages/server/dist/keys/form.js');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-soak-'));
const data = path.join(folder, 'data');
const port = 20_000 + Math.floor(Math.random() * 10_000);
const api = `http://127.0.0.1:${port}/api/dbaas/v2`;
const account = makeKey('rh_acct_');
const ledger = createLedger();
let began = performance.now();
let endsAt = Number.POSITIVE_INFINITY;
const minute = () => (performance.now() - began) / 60_000;
const isOver = () => performance.now() >= endsAt;

let service;
/** The faults that were injected. */
const disturbances = [];
const problems = [];

async function startService() {
  const env = { ROWHOUSE_DATA: data, ROWHOUSE_PORT: String(port), ROWHOUSE_ACCOUNT_KEY: account };
  service = await start('packages/server/dist/main.js', env, /^ready$/m);
  service.child.removeAllListeners('exit');
  const { child } = service;
  child.once('exit', (code, signal) => {
    if (!child.isExpected) problems.push(`the service exited unexpectedly (${signal ?? code})`);
  });
}

const { send, insist, answers } = createRequests(api, disturbances);

function settle(group, { ok, isSure }) {
  group.outcome = ok ? 'kept' : isSure ? 'refused' : 'unknown';
}

/* ---- the load ---- */

const projects = [];
const users = [];
/** Projects that are created and deleted during the run: slug → kept, gone or unknown. */
const shortLived = new Map();
const random = (count) => Math.floor(Math.random() * count);
const pick = (list) => list[random(list.length)];

/** Some clients disconnect during a request. */
const maybeHangUp = () => (Math.random() < 0.03 ? { hangUpMs: 1 + random(40) } : {});

const acts = {
  async query(project) {
    await send('query', 'POST', `${project.path}/query`, project.key, {
      query: 'select id, body from ledger where id > $1 order by id limit 20',
      params: [random(100_000)],
    });
  },
  async 'large query'(project) {
    const body = { query: "select n, repeat('x', 100) as x from generate_series(1, 5000) as n" };
    await send('large query', 'POST', `${project.path}/query`, project.key, body, maybeHangUp());
  },
  async page(project) {
    await send('page', 'GET', `${project.path}/tables/ledger?limit=50`, project.key);
  },
  async 'insert by SQL'(project) {
    const group = ledger.begin(project.slug, 1);
    const [{ id, body }] = group.rows;
    const statement = { query: 'insert into ledger (id, body) values ($1, $2)', params: [id, body] };
    settle(
      group,
      await send('insert by SQL', 'POST', `${project.path}/query`, project.key, statement, maybeHangUp()),
    );
  },
  async 'insert a row'(project) {
    const group = ledger.begin(project.slug, 1);
    const target = `${project.path}/tables/ledger`;
    settle(group, await send('insert a row', 'POST', target, project.key, group.rows[0], maybeHangUp()));
  },
  async 'insert rows'(project) {
    const group = ledger.begin(project.slug, 2 + random(30));
    const target = `${project.path}/tables/ledger`;
    settle(group, await send('insert rows', 'POST', target, project.key, group.rows, maybeHangUp()));
  },
  async batch(project) {
    const group = ledger.begin(project.slug, 2 + random(6));
    const statements = group.rows.map(({ id, body }) => ({
      query: 'insert into ledger (id, body) values ($1, $2)',
      params: [id, body],
    }));
    // Some batches fail at their last statement: then none of their rows may exist.
    if (Math.random() < 0.2) statements.push({ query: 'select 1 / 0' });
    const target = `${project.path}/batch`;
    settle(group, await send('batch', 'POST', target, project.key, { statements }, maybeHangUp()));
  },
  async import(project) {
    const group = ledger.begin(project.slug, 100 + random(900));
    const lines = group.rows.map(({ id, body }) => `${id},${body}`);
    const csv = `id,body\n${lines.join('\n')}\n`;
    const target = `${project.path}/tables/ledger`;
    settle(
      group,
      await send('import', 'POST', target, project.key, csv, { type: 'text/csv', ...maybeHangUp() }),
    );
  },
  async 'refused insert'(project) {
    const group = ledger.begin(project.slug, 1);
    const statement = {
      query: 'insert into ledger (id, body) select $1, $2 from (select 1 / (random() * 0)::int) as never',
      params: [group.rows[0].id, group.rows[0].body],
    };
    settle(group, await send('refused insert', 'POST', `${project.path}/query`, project.key, statement));
  },
  async count(project) {
    const update = { query: 'update counter set n = n + 1' };
    const { ok, isSure } = await send('count', 'POST', `${project.path}/query`, project.key, update);
    if (ok) project.counted++;
    else if (!isSure) project.maybeCounted++;
  },
  async 'sign up'(project) {
    const user = {
      project,
      email: `u${users.length}-${random(1e9)}@example.com`,
      password: 'correct horse 1',
    };
    const { ok, isSure } = await send('sign up', 'POST', `${project.path}/auth/signup`, project.key, {
      email: user.email,
      password: user.password,
    });
    users.push({ ...user, outcome: ok ? 'kept' : isSure ? 'refused' : 'unknown' });
  },
  async 'sign in'() {
    const known = users.filter(({ outcome }) => outcome === 'kept');
    if (known.length === 0) return;
    const { project, email, password } = pick(known);
    await send('sign in', 'POST', `${project.path}/auth/signin`, project.key, { email, password });
  },
  async 'create and delete a project'() {
    const slug = `short-lived-${shortLived.size}-${random(1e9)}`;
    shortLived.set(slug, 'unknown');
    const made = await send('create a project', 'POST', '/projects', account, { name: slug, slug });
    shortLived.set(slug, made.ok ? 'kept' : made.isSure ? 'gone' : 'unknown');
    if (!made.ok || Math.random() < 0.3) return;
    const gone = await send('delete a project', 'DELETE', `/projects/${slug}`, account);
    shortLived.set(slug, gone.ok ? 'gone' : gone.isSure ? 'kept' : 'unknown');
  },
};
const shares = {
  query: 30,
  'large query': 2,
  page: 15,
  'insert by SQL': 15,
  'insert a row': 12,
  'insert rows': 4,
  batch: 6,
  import: 1,
  'refused insert': 3,
  count: 6,
  'sign up': 0.3,
  'sign in': 0.7,
  'create and delete a project': 0.3,
};
const allShares = Object.values(shares).reduce((sum, share) => sum + share, 0);

function pickAct() {
  let at = Math.random() * allShares;
  for (const [name, share] of Object.entries(shares)) {
    at -= share;
    if (at <= 0) return acts[name];
  }
  return acts.query;
}

async function client() {
  while (!isOver()) {
    await pickAct()(pick(projects));
    // Clients pause between requests, also while the service is down.
    await sleep(5 + random(20));
  }
}

/** Runs hostile statements in the first three projects, which serve ordinary load too. No other project may be affected. */
async function attacker() {
  while (!isOver()) {
    const project = projects[random(3)];
    const body = { query: pick(hostile), timeout_ms: 3_000 };
    const hangUp = Math.random() < 0.2 ? { hangUpMs: random(500) } : {};
    await send('hostile', 'POST', `${project.path}/query`, project.key, body, hangUp);
    await sleep(200 + random(800));
  }
}

/* ---- faults ---- */

const faults = {
  async 'kill -9 of PostgreSQL'() {
    process.kill(postmasterOf(data), 'SIGKILL');
  },
  async 'SIGTERM to the service'() {
    service.child.isExpected = true;
    await stop(service);
    await startService();
  },
  async 'kill -9 of the service'() {
    service.child.isExpected = true;
    service.child.kill('SIGKILL');
    await once(service.child, 'exit');
    await startService();
  },
  async 'kill -9 of both'() {
    service.child.isExpected = true;
    service.child.kill('SIGKILL');
    process.kill(postmasterOf(data), 'SIGKILL');
    await once(service.child, 'exit');
    await startService();
  },
};

async function inject(name) {
  const disturbance = { name, at: performance.now(), doneAt: null };
  disturbances.push(disturbance);
  await faults[name]();
  while (
    (await send('after a fault', 'POST', `${projects[0].path}/query`, projects[0].key, one)).code !== 'ok'
  )
    await sleep(100);
  disturbance.doneAt = performance.now();
}
const one = { query: 'select 1 as one' };

/** Stops the service in the first half only, so that growth of its memory shows in the second. */
async function disturb() {
  const names = Object.keys(faults);
  const everyMs = Math.max(25_000, (minutes * 60_000) / 12);
  for (let n = 0; ; n++) {
    const next = began + everyMs * (n + 0.4);
    if (next > endsAt - 3_000) return;
    await sleep(Math.max(0, next - performance.now()));
    await inject(minute() < minutes / 2 - 0.3 ? names[n % names.length] : names[0]);
  }
}

/* ---- resource usage ---- */

const samples = [];

async function sample() {
  while (!isOver()) {
    await sleep(sampleMs);
    try {
      const postmaster = postmasterOf(data);
      const backends = familyOf(postmaster);
      const mb = memoryMb(service.child.pid, postmaster);
      const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      samples.push({
        minute: minute(),
        pid: service.child.pid,
        'service, MB': mb.service,
        'PostgreSQL, MB': mb.postgres,
        'PostgreSQL processes': backends.length,
        'connections to projects': Number(/^rowhouse_sessions (\d+)/m.exec(metrics)?.[1]),
        'open files of the service': openFiles(service.child.pid),
        'open files of PostgreSQL': openFiles(postmaster),
      });
    } catch {
      // One of the two is down at the moment.
    }
  }
}

/* ---- final checks ---- */

async function checkEverything() {
  for (const project of projects) {
    const query = (text) => insist('POST', `${project.path}/query`, project.key, { query: text });
    const { rows } = await query('select id, body from ledger');
    problems.push(...ledger.check(project.slug, new Map(rows.map(({ id, body }) => [id, body]))));
    const [{ n }] = (await query('select n from counter')).rows;
    if (n < project.counted || n > project.counted + project.maybeCounted)
      problems.push(
        `${project.slug}: the counter is ${n}, expected ${project.counted} to ${project.counted + project.maybeCounted}`,
      );
    const { rows: found } = await query('select email from auth.users');
    const emails = new Set(found.map(({ email }) => email));
    for (const { email, outcome } of users.filter((user) => user.project === project)) {
      if (outcome === 'kept' && !emails.has(email)) problems.push(`${project.slug}: user ${email} is lost`);
      if (outcome === 'refused' && emails.has(email))
        problems.push(`${project.slug}: user ${email} was refused but exists`);
    }
  }
  const live = new Set();
  for (let page = 1; ; page++) {
    const list = await insist('GET', `/projects?limit=100&page=${page}`, account);
    for (const { slug } of list.projects) live.add(slug);
    if (!list.has_more) break;
  }
  for (const [slug, outcome] of shortLived) {
    if (outcome === 'kept' && !live.has(slug)) problems.push(`project ${slug} is lost`);
    if (outcome === 'gone' && live.has(slug)) problems.push(`project ${slug} was deleted but exists`);
  }
}

/* ---- the run ---- */

let rows = [];
let growth = [];
try {
  await startService();
  for (let n = 0; n < projectCount; n++) {
    const { project, api_key: key } = await insist('POST', '/projects', account, { name: `Soak ${n}` });
    const target = `/projects/${project.slug}`;
    projects.push({ slug: project.slug, path: target, key, counted: 0, maybeCounted: 0 });
    const query = (text) => insist('POST', `${target}/query`, key, { query: text });
    await query('create table ledger (id bigint primary key, body text not null)');
    await query('create table counter (n bigint)');
    await query('insert into counter values (0)');
  }
  began = performance.now();
  endsAt = began + minutes * 60_000;
  const load = [...Array.from({ length: clients }, client), attacker(), attacker(), sample(), disturb()];
  await Promise.all(load);
  const half = samples.filter((taken) => taken.minute > minutes / 2 && taken.pid === service.child.pid);
  growth = judgeGrowth(half, minutes, problems);
  await inject('kill -9 of both');
  await checkEverything();
  rows = explainFailures(answers, problems);
} finally {
  if (service) {
    service.child.isExpected = true;
    await stop(service);
  }
  if (problems.length === 0) rmSync(folder, { recursive: true, force: true });
  else console.error(`The data folder is kept for inspection: ${folder}`);
}

const { kept, refused, unknown } = ledger.counts();
const sent = [...answers.values()].reduce((sum, { calm, disturbed }) => sum + calm + disturbed, 0);
function plotMemory() {
  const lineOf = (name) => ({ name, points: samples.map((taken) => [taken.minute, taken[name]]) });
  const series = ['service, MB', 'PostgreSQL, MB'].map(lineOf);
  return writePlot('soak', { title: 'Memory during the run', x: 'minutes', y: 'MB', series });
}

report(
  'soak',
  ['requests', 'outcome', 'without fault', 'around a fault', 'share of its kind', 'reason'],
  [['all', '', String(sent), '', '', ''], ...rows],
  options.write,
  {
    tables: [
      {
        title: 'Second half',
        header: ['', 'mean', 'first', 'last', 'slope per minute', ''],
        rows: growth,
      },
    ],
    plots: options.write ? [plotMemory()] : [],
    notes: [
      `${projectCount} projects, ${clients} clients, ${minutes} minutes.`,
      `Injected faults, with the seconds until the next successful answer: ${disturbances.map(({ name, at, doneAt }) => `${name} ${((doneAt - at) / 1000).toFixed(1)}`).join(', ')}.`,
      `Rows acknowledged ${kept}, refused ${refused}, unknown ${unknown}; users ${users.length}; short-lived projects ${shortLived.size}.`,
      problems.length === 0 ? 'No acknowledged row was lost, and no refused row was stored.' : 'PROBLEMS:',
      ...problems.slice(0, 50),
    ],
  },
);
if (problems.length > 0) process.exit(1);
