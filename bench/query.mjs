// Q1 one row, Q2 50 rows, Q3 10,000 rows, Q4 an insert: ours with everything switched on, against pgbench on the same
// server and against the obvious program (fastify + pg + JSON.stringify; no key, no isolation, no reset, no limits).
// npm run bench -- query [--seconds 3] [--repeats 7] [--write]. Needs wrk and pgbench (Debian: wrk, postgresql-client).
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { report } from './report.mjs';

const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3' },
    repeats: { type: 'string', default: '7' },
    connections: { type: 'string', default: '32' },
    write: { type: 'boolean', default: false },
  },
});
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-bench-query-'));
const port = 20_000 + Math.floor(Math.random() * 10_000);
const api = `http://127.0.0.1:${port}/api/dbaas/v2`;
const root = path.resolve(import.meta.dirname, '..');

const workloads = {
  Q1: { sql: 'select id, name, price, in_stock, tags, created_at from items where id = $1', id: 'one' },
  Q2: {
    sql: 'select id, name, price, in_stock, tags, created_at from items where id >= $1 order by id limit 50',
    id: 'one',
  },
  Q3: {
    sql: 'select id, name, price, in_stock, tags, created_at from items order by id limit 10000',
    id: 'none',
  },
  Q4: { sql: "insert into sales (item, note) values ($1, 'bench')", id: 'one' },
};

function start(script, env, ready) {
  const child = spawn(process.execPath, [script], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`${script} ended with ${code}: ${output}`)));
    child.stdout.on('data', (piece) => {
      output += piece;
      if (ready.test(output)) resolve({ child, output });
    });
  });
}

async function stop({ child }) {
  child.removeAllListeners('exit');
  child.kill('SIGTERM');
  await once(child, 'exit');
}

async function call(method, target, key, body) {
  const headers = { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) };
  const response = await fetch(api + target, {
    method,
    headers,
    ...(body && { body: JSON.stringify(body) }),
  });
  const answer = await response.json();
  if (!answer.ok) throw new Error(JSON.stringify(answer));
  return answer;
}

/** Requests a second by wrk, with a random id in each body. */
function wrk(url, headers, { sql, id }) {
  const script = path.join(folder, 'wrk.lua');
  const text = JSON.stringify(sql).replaceAll("'", "\\'");
  const parameters = id === 'one' ? `[' .. math.random(1, 90000) .. ']` : '[]';
  writeFileSync(
    script,
    `math.randomseed(os.time())
local headers = { ['content-type'] = 'application/json'${headers} }
request = function()
  return wrk.format('POST', nil, headers, '{"query":${text},"params":${parameters}}')
end
local bad = 0
response = function(status) if status ~= 200 then bad = bad + 1 end end
`,
  );
  const out = execFileSync(
    'wrk',
    [
      '-t1',
      `-c${options.connections}`,
      `-d${options.seconds}s`,
      '--timeout',
      '30s',
      '--latency',
      '-s',
      script,
      url,
    ],
    { encoding: 'utf8' },
  );
  if (/Non-2xx/.test(out)) throw new Error(out);
  const latency = (name) => new RegExp(`^\\s+${name}\\s+(\\S+)`, 'm').exec(out)?.[1];
  return { rate: Number(/Requests\/sec:\s+([\d.]+)/.exec(out)[1]), p50: latency('50%'), p99: latency('99%') };
}

function pgbench(url, mode, { sql, id }) {
  const script = path.join(folder, 'pgbench.sql');
  const set = id === 'one' ? '\\set id random(1, 90000)\n' : '';
  writeFileSync(script, `${set}${sql.replace('$1', ':id')};\n`);
  const out = execFileSync(
    'pgbench',
    ['-n', '-M', mode, '-c', '10', '-j', '1', '-T', options.seconds, '-f', script, url],
    {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    },
  );
  return { rate: Number(/tps = ([\d.]+)/.exec(out)[1]) };
}

/** CPU time of a process and of PostgreSQL's children, in ticks of 10 ms. */
function cpu(pids) {
  return pids.reduce((sum, pid) => {
    try {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
      return sum + Number(fields[11]) + Number(fields[12]);
    } catch {
      return sum;
    }
  }, 0);
}

for (const tool of ['wrk', 'pgbench']) {
  if (spawnSync(tool, ['--version']).error) {
    console.error(
      `${tool} is not on this machine: apt-get install ${tool === 'wrk' ? 'wrk' : 'postgresql-client'}`,
    );
    process.exit(1);
  }
}
const { makeKey } = await import('../packages/server/dist/keys/form.js');
const account = makeKey('rh_acct_');
const ours = await start(
  path.join(root, 'packages/server/dist/main.js'),
  { ROWHOUSE_DATA: path.join(folder, 'data'), ROWHOUSE_PORT: String(port), ROWHOUSE_ACCOUNT_KEY: account },
  /^ready$/m,
);
const rows = [];
let obvious;
try {
  const { project, api_key: key } = await call('POST', '/projects', account, { name: 'Bench' });
  const query = (text) => call('POST', `/projects/${project.slug}/query`, key, { query: text });
  await query(
    `create table items (id bigint primary key, name text, price numeric(10,2), in_stock boolean, tags jsonb, created_at timestamptz)`,
  );
  await query(
    `insert into items select n, 'Item number ' || n, (n % 10000) / 100.0, n % 3 = 0, jsonb_build_object('color', 'red', 'sizes', jsonb_build_array(n % 7, n % 11)), timestamptz '2026-01-01' + n * interval '1 minute' from generate_series(1, 100000) as n`,
  );
  await query(
    'create table sales (id bigint generated always as identity primary key, item bigint, note text, at timestamptz default now())',
  );
  await query('vacuum analyze items');
  const { connection } = await call('GET', `/projects/${project.slug}/connection`, key);
  const otherPort = port + 1;
  obvious = await start(
    path.join(import.meta.dirname, 'peers/obvious/server.mjs'),
    { DATABASE_URL: connection.url, PORT: String(otherPort) },
    /ready/,
  );
  const sides = {
    ours: (workload) => wrk(`${api}/projects/${project.slug}/query`, `, ['x-api-key'] = '${key}'`, workload),
    obvious: (workload) => wrk(`http://127.0.0.1:${otherPort}/query`, '', workload),
    extended: (workload) => pgbench(connection.url, 'extended', workload),
    prepared: (workload) => pgbench(connection.url, 'prepared', workload),
  };
  const median = (list) => [...list].sort((a, b) => a.rate - b.rate)[Math.floor(list.length / 2)];
  for (const [name, workload] of Object.entries(workloads)) {
    const measured = Object.fromEntries(Object.keys(sides).map((side) => [side, []]));
    let ticks = 0;
    let requests = 0;
    // The first turn is not counted: connections are opened and code is compiled, on every side.
    for (let repeat = -1; repeat < Number(options.repeats); repeat++) {
      for (const [side, run] of Object.entries(sides)) {
        const before = cpu([ours.child.pid]);
        const result = run(workload);
        if (repeat < 0) continue;
        measured[side].push(result);
        if (side === 'ours') {
          ticks += cpu([ours.child.pid]) - before;
          requests += result.rate * Number(options.seconds);
        }
      }
    }
    const mid = Object.fromEntries(Object.entries(measured).map(([side, list]) => [side, median(list)]));
    // Of neighbouring turns, because the machine's own speed changes; then their median.
    const ratio = (side) => {
      const ratios = measured.ours.map(({ rate }, turn) => rate / measured[side][turn].rate);
      return ratios.sort((a, b) => a - b)[Math.floor(ratios.length / 2)].toFixed(2);
    };
    rows.push([
      name,
      ...['ours', 'obvious', 'extended', 'prepared'].map((side) =>
        mid[side].rate.toFixed(mid[side].rate < 100 ? 1 : 0),
      ),
      ratio('obvious'),
      ratio('prepared'),
      `${mid.ours.p50} / ${mid.ours.p99}`,
      `${Math.round((ticks * 10_000) / requests)} µs`,
    ]);
  }
} finally {
  if (obvious) await stop(obvious);
  await stop(ours);
  rmSync(folder, { recursive: true, force: true });
}
report(
  'query',
  'npm run bench -- query',
  [
    '',
    'ours /s',
    'obvious /s',
    'pgbench extended',
    'pgbench prepared',
    '× obvious',
    '× prepared',
    'p50 / p99',
    'our CPU a request',
  ],
  rows,
  options.write,
);
