// A million projects: where the product's placement puts them, what must move when a server is added or lost, and what a
// control database with that many rows costs a start, a look-up, a listing, a scrape and an idle service.
// npm run bench -- fleet-simulation [--quick] [--projects 1000000] [--servers 200] [--write]
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fillNew, lose, makeFleet, makeProjects, place, randomFrom, spread } from './fleet-model.mjs';
import { median, needTools, pgbench, start, stop, superuserUrl, wrk } from './load.mjs';
import { readOptions } from './options.mjs';
import { cpuMs, postmasterOf } from './processes.mjs';
import { perSecond, report } from './report.mjs';

const { projects, servers, seconds, idle, write } = readOptions({
  projects: { quick: 50_000, full: 1_000_000 },
  servers: { quick: 20, full: 200, what: 'servers of the fleet' },
  seconds: { quick: 2, full: 5 },
  idle: { quick: 10, full: 60, what: 'seconds in which the service is idle' },
});
needTools('wrk', 'pgbench', 'psql');
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-fleet-'));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const number = (value) => value.toLocaleString('en');
const ms = (value) => `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;
const part = (value) => value.toFixed(2);

function simulate() {
  const all = makeProjects(projects, randomFrom(1));
  const fleet = makeFleet(servers, all);
  const stages = [];
  const stage = (name, moves) => {
    const disk = spread(fleet, ({ storedMb }) => storedMb);
    const traffic = spread(fleet, ({ rate }) => rate);
    const largest = all.reduce((most, { rate }) => Math.max(most, rate), 0) * servers;
    stages.push([name, moves, part(disk.most), part(disk.least), part(traffic.most), part(traffic.least)]);
    return largest;
  };
  const us = place(fleet, all);
  const largest = stage(`${number(projects)} projects placed on ${servers} servers`, '–');
  const { moves, movedMb } = fillNew(fleet, all);
  stage(
    'a server is added and filled to the average',
    `${number(moves)} (${(movedMb / 1024).toFixed(0)} GB)`,
  );
  stage('a server is lost, its projects are placed again', number(lose(fleet, 0, all)));
  return { stages, us, largest };
}

async function psql(data, text) {
  const options = ['-X', '-q', '-t', '-A', '-v', 'ON_ERROR_STOP=1', '-c', text];
  return execFileSync('psql', [await superuserUrl(data, 'rowhouse'), ...options], {
    encoding: 'utf8',
  }).trim();
}

/** On servers that this process cannot reach, each project with its key and a point of its usage. */
async function fill(data) {
  await psql(
    data,
    `insert into servers (name) select 's' || n from generate_series(1, ${servers}) as n;
     insert into projects (id, account_id, server_id, slug, name, limit_mb, template, empty_bytes, size_bytes, created_at,
                           noted_at, noted_bytes, noted_full)
     select 'x' || n, 'default', (select min(id) from servers where name = 's' || n % ${servers} + 1), 'x' || n,
            'Project ' || n, 500, template, empty_bytes, empty_bytes + n % 1000 * 65536,
            now() - n * interval '1 second', now(), n % 1000 * 65536, false
     from generate_series(1, ${projects}) as n, (select template, empty_bytes from projects where slug = 'bench') as bench;
     insert into keys (id, kind, account_id, project_id, name, start, hash, sealed, scopes)
     select 'x' || n, 'project', 'default', 'x' || n, 'default', 'rh_proj_xxxx', sha256(n::text::bytea),
            decode(repeat('00', 80), 'hex'), '{}'
     from generate_series(1, ${projects}) as n;
     insert into usage_points (project_id, at, size_bytes)
     select 'x' || n, now(), 1 from generate_series(1, ${projects}) as n`,
  );
  await psql(data, 'vacuum analyze');
}

async function startOn(data) {
  const began = performance.now();
  const env = { ROWHOUSE_DATA: data, ROWHOUSE_PORT: String(port), ROWHOUSE_ACCOUNT_KEY: account };
  const { child } = await start(
    'packages/server/dist/main.js',
    { ...env, ROWHOUSE_BACKUP_URL: 'off', ROWHOUSE_SPARES: '2' },
    /^ready$/m,
  );
  return { child, tookMs: performance.now() - began };
}

async function call(method, target, body) {
  const headers = { 'x-api-key': account, ...(body && { 'content-type': 'application/json' }) };
  const response = await fetch(origin + target, {
    method,
    headers,
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${method} ${target}: ${await response.text()}`);
  return response.text();
}

/** The median of several requests, in milliseconds. */
async function answers(count, target, pauseMs = 0) {
  const took = [];
  for (let n = 0; n < count; n++) {
    await sleep(pauseMs);
    const began = performance.now();
    await call('GET', target);
    took.push(performance.now() - began);
  }
  return median(took);
}

/** The processor's share of an idle service and its PostgreSQL, as milliseconds a second. */
async function idleCost(pid, data) {
  const postmaster = postmasterOf(data);
  const before = cpuMs(pid, postmaster);
  await sleep(idle * 1000);
  const after = cpuMs(pid, postmaster);
  return [after.service - before.service, after.postgres - before.postgres].map((cost) => cost / idle);
}

/** What the service does with the rows that are there. `slug` is Lua. */
async function measure({ child, tookMs }, data, { slug, lastPage }) {
  // The first pass of the background work is part of the start.
  await sleep(10_000);
  const [own, postgres] = await idleCost(child.pid, data);
  const get = wrk(folder, origin, {
    headers: `, ['x-api-key'] = '${account}'`,
    request: `return wrk.format('GET', '${api}/projects/' .. ${slug}, headers)`,
    connections: 16,
    seconds,
  });
  return [
    `${(tookMs / 1000).toFixed(1)} s`,
    `${own.toFixed(1)} + ${postgres.toFixed(1)} ms`,
    perSecond(get.rate),
    ms(await answers(20, `${api}/projects?limit=50`)),
    ms(await answers(5, `${api}/projects?limit=50&page=${lastPage}`)),
    // Requests within a second share one reading.
    ms(await answers(5, '/metrics', 1_200)),
    `${number(Math.round(Number(await psql(data, "select pg_database_size('rowhouse')")) / 1024 ** 2))} MB`,
  ];
}

/** Look-ups of a key by its hash, as the service does for a key that it does not hold in memory. */
async function keyLookUps(data) {
  const statement =
    `select keys.id, keys.kind, projects.slug from keys left join projects on projects.id = keys.project_id
    where keys.hash = sha256($1::text::bytea)`.replaceAll(/\s+/g, ' ');
  const url = await superuserUrl(data, 'rowhouse');
  return pgbench(folder, url, statement, { seconds, highestId: projects, clients: 8 }).rate;
}

/** The statements of the background work that are repeated for each server, here for one of the many, in milliseconds. */
async function serverPass(data) {
  const dist = (name) => import(`../packages/server/dist/${name}.js`);
  const [{ openControl }, { openDatabase }, { findOutdated }, { readProjectSchema }] = await Promise.all([
    ...[dist('control/control'), dist('postgres/admin/database'), dist('projects/upgrade')],
    dist('servers/template/project-schema'),
  ]);
  const [{ settleLoginGates }, { countUse }, { forgetEndedKeys }] = await Promise.all([
    ...[dist('quotas/direct/direct-login-gate'), dist('servers/rows'), dist('keys/manage')],
  ]);
  const { hostname, port: at, username, password } = new URL(await superuserUrl(data));
  const address = {
    host: hostname,
    port: Number(at),
    user: username,
    password: decodeURIComponent(password),
    tls: false,
    database: 'postgres',
  };
  const [control, maintenance] = [openControl(address, 'rowhouse'), openDatabase(address, { max: 1 })];
  const [row] = (
    await psql(data, "select server_id || ' ' || template from projects where slug = 'x1'")
  ).split('\n');
  const [id, template] = [Number(row.split(' ')[0]), row.split(' ')[1]];
  const server = { id, template, maintenance, projectSchema: await readProjectSchema(true) };
  const timed = async (run) => {
    const took = [];
    for (let n = 0; n < 7; n++) {
      const began = performance.now();
      await run();
      took.push(performance.now() - began);
    }
    return ms(median(took));
  };
  try {
    return [
      [
        'projects with an older schema',
        'each server, every 2 s',
        await timed(() => findOutdated(control, server)),
      ],
      [
        'login gates of full projects',
        'each server, every 2 s',
        await timed(() => settleLoginGates({ control, server })),
      ],
      ['projects and their sizes', 'each server, every 30 s', await timed(() => countUse(control, id))],
      ['ended keys', 'once, every 30 s', await timed(() => forgetEndedKeys(control))],
    ];
  } finally {
    await control.end();
    await maintenance.end();
  }
}

const { makeKey } = await import('../packages/server/dist/keys/form.js');
const account = makeKey('rh_acct_');
const port = 20_000 + Math.floor(Math.random() * 10_000);
const origin = `http://127.0.0.1:${port}`;
const api = '/api/dbaas/v2';
const data = path.join(folder, 'data');
let running = null;
try {
  const { stages, us, largest } = simulate();
  running = await startOn(data);
  await call('POST', `${api}/projects`, { name: 'Bench' });
  await stop(running);
  running = await startOn(data);
  const few = await measure(running, data, { slug: "'bench'", lastPage: 1 });
  await fill(data);
  await stop(running);
  running = await startOn(data);
  const lastPage = Math.floor(projects / 50);
  const many = await measure(running, data, { slug: `'x' .. math.random(1, ${projects})`, lastPage });
  const keys = await keyLookUps(data);
  const pass = await serverPass(data);
  const what = [
    'start',
    'idle, a second: service + PostgreSQL',
    'GET /projects/:slug a second, random slugs',
    'GET /projects, first page of 50',
    'GET /projects, last page of 50',
    'GET /metrics',
    'size of the control database',
  ];
  report(
    'fleet-simulation',
    ['stage', 'moves', 'disk, most / mean', 'least / mean', 'traffic, most / mean', 'least / mean'],
    stages,
    write,
    {
      tables: [
        {
          title: 'The control database',
          header: ['', '1 project', `${number(projects)} projects`],
          rows: what.map((name, index) => [name, few[index], many[index]]),
        },
        {
          title: `The background work, with ${number(projects / servers)} projects on a server`,
          header: ['what it looks for', 'how often', 'time'],
          rows: pass,
        },
      ],
      notes: [
        `Placing one project takes ${us.toFixed(0)} µs with ${servers} servers.`,
        `The project with the most traffic has ${largest.toFixed(1)} times the traffic of an average server, so no placement spreads traffic better than that.`,
        `PostgreSQL looks up ${perSecond(keys)} keys a second among ${number(projects)} (pgbench, 8 clients).`,
        'Sizes are log-normal (median 20 MB), traffic follows Zipf. Placement sees sizes as the background work counts them.',
      ],
    },
  );
} finally {
  if (running) await stop(running).catch(() => {});
  rmSync(folder, { recursive: true, force: true });
}
