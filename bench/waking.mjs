// The first request of a project that slept: no session is open in its database. Compared with what a bare connection costs
// (log in and run the same statement with pg), and with the next request of the same project.
// npm run bench -- waking [--projects 40] [--turns 5] [--quick] [--write]
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startService, stop, superuserUrl } from './load.mjs';
import { readOptions } from './options.mjs';
import { report } from './report.mjs';

const options = readOptions({ projects: { quick: 5, full: 40 }, turns: { quick: 2, full: 5 } });
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-waking-'));
const service = await startService(folder);
const asks = {
  'one row by SQL': (project) =>
    post(project, '/query', { query: 'select * from t where id = $1', params: [1] }),
  'a page of a table': (project) => get(project, '/tables/t?limit=50'),
  'an insert by SQL': (project) =>
    post(project, '/query', { query: 'insert into t (name) values ($1)', params: ['x'] }),
  'an insert into a table': (project) => post(project, '/tables/t', { name: 'x' }),
};

async function send(project, target, more) {
  const began = performance.now();
  const response = await fetch(project.url + target, {
    ...more,
    headers: { ...more.headers, 'x-api-key': project.key },
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(answer);
  return performance.now() - began;
}
const get = (project, target) => send(project, target, {});
const post = (project, target, body) =>
  send(project, target, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

/** Ends all sessions in projects' databases, and waits until what the service knows about their tables has expired. */
async function putToSleep(superuser) {
  await superuser.query(
    `select pg_terminate_backend(pid) from pg_stat_activity where datname like 'p\\_%' and backend_type = 'client backend'`,
  );
  await sleep(11_000);
}

async function connectBare(url) {
  const began = performance.now();
  const client = new pg.Client(url);
  await client.connect();
  await client.query('select * from t where id = $1', [1]);
  const ms = performance.now() - began;
  await client.end();
  return ms;
}

const percentile = (list, part) => [...list].sort((a, b) => a - b)[Math.ceil(list.length * part) - 1];
const rows = [];
const superuser = new pg.Client(await superuserUrl(service.data));
try {
  await superuser.connect();
  const projects = [];
  for (let n = 0; n < options.projects; n++) {
    const project = await service.makeProject(`Sleeper ${n}`, 500);
    await project.query('create table t (id bigint generated always as identity primary key, name text)');
    await project.query("insert into t (name) select 'name ' || n from generate_series(1, 1000) as n");
    const { connection } = await project.call('GET', '/connection');
    projects.push({ ...project, databaseUrl: connection.url });
  }
  for (const [name, ask] of Object.entries(asks)) {
    const [bare, first, second] = [[], [], []];
    for (let turn = -1; turn < options.turns; turn++) {
      await putToSleep(superuser);
      for (const project of projects) {
        const ms = await ask(project);
        const again = await ask(project);
        const bareMs = await connectBare(project.databaseUrl);
        if (turn < 0) continue;
        bare.push(bareMs);
        first.push(ms);
        second.push(again);
      }
    }
    const [p50, p99, bareP50] = [percentile(first, 0.5), percentile(first, 0.99), percentile(bare, 0.5)];
    rows.push([
      name,
      p50.toFixed(1),
      p99.toFixed(1),
      `${bareP50.toFixed(1)} / ${percentile(bare, 0.99).toFixed(1)}`,
      (p50 / bareP50).toFixed(1),
      percentile(second, 0.5).toFixed(1),
      'p50 ≤ 6, p99 ≤ 15',
    ]);
  }
} finally {
  await superuser.end();
  await stop(service);
  rmSync(folder, { recursive: true, force: true });
}
const header = [
  '',
  'p50 ms',
  'p99 ms',
  'a bare connection, p50 / p99 ms',
  'p50 × bare',
  'the next request, p50 ms',
  'goal',
];
report('waking', header, rows, options.write, {
  notes: [
    'One request at a time, over a kept connection. The bare connection is pg over TCP with SCRAM, as a project’s own program would open it, one after each request.',
    'The service has seen the project before: it knows the key and the statement. Its sessions are gone, and what it knew about size and tables has expired.',
  ],
});
