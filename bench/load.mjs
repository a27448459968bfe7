// Shared by the benchmarks: starting a service, its superuser's address, running wrk and pgbench, and ratios of results.
import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { lastId } from './items.mjs';

const root = path.resolve(import.meta.dirname, '..');

export function needTools(...tools) {
  const packages = { wrk: 'wrk', pgbench: 'postgresql-client', psql: 'postgresql-client' };
  for (const tool of tools) {
    if (!spawnSync(tool, ['--version']).error) continue;
    console.error(`${tool} is not installed. On Debian: apt-get install ${packages[tool]}`);
    process.exit(1);
  }
}

/** As `rowhouse start` sets them (packages/cli/src/commands/start.ts). */
const memorySettings = { MALLOC_MMAP_THRESHOLD_: '131072', MALLOC_TRIM_THRESHOLD_: '131072' };

export function start(script, env, ready) {
  const child = spawn(process.execPath, [path.resolve(root, script)], {
    env: { ...memorySettings, ...process.env, ...env },
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

export async function stop({ child }) {
  child.removeAllListeners('exit');
  child.kill('SIGTERM');
  await once(child, 'exit');
}

/** Starts a service with one project. `env`: additional settings. */
export async function startService(folder, script = 'packages/server/dist/main.js', env = {}) {
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const api = `http://127.0.0.1:${port}/api/dbaas/v2`;
  const { makeKey } = await import('../packages/server/dist/keys/form.js');
  const account = makeKey('rh_acct_');
  const data = path.join(folder, 'data');
  const service = await start(
    script,
    // The suite `backups` measures what backups cost; in the others they would only add noise.
    {
      ROWHOUSE_DATA: data,
      ROWHOUSE_PORT: String(port),
      ROWHOUSE_ACCOUNT_KEY: account,
      ROWHOUSE_BACKUP_URL: 'off',
      ...env,
    },
    /^ready$/m,
  );
  const call = async (method, target, key, body) => {
    // A kept connection may have been closed meanwhile: pgbench blocks this process for minutes.
    const headers = {
      connection: 'close',
      'x-api-key': key,
      ...(body && { 'content-type': 'application/json' }),
    };
    const response = await fetch(api + target, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    const answer = await response.json();
    if (!answer.ok) throw new Error(JSON.stringify(answer));
    return answer;
  };
  const makeProject = async (name, limitMb = 4000, more = {}) => {
    const body = { name, limit_mb: limitMb, ...more };
    const { project, api_key: key } = await call('POST', '/projects', account, body);
    const target = `/projects/${project.slug}`;
    return {
      key,
      slug: project.slug,
      url: api + target,
      call: (method, rest, body) => call(method, target + rest, key, body),
      query: (text, more = {}) =>
        call('POST', `${target}/query`, key, { query: text, timeout_ms: 120_000, ...more }),
    };
  };
  const project = await makeProject('Bench');
  const { connection } = await project.call('GET', '/connection');
  const { pid } = service.child;
  const asAccount = (method, target, body) => call(method, target, account, body);
  const rest = { databaseUrl: connection.url, makeProject, asAccount, accountKey: account };
  return { ...service, pid, data, port, ...project, ...rest };
}

/** Where and how the superuser of the service with this data folder logs in. */
export async function superuserAddress(data) {
  const [{ embeddedAddress }, { masterKeyFile, readKeyFile }] = await Promise.all([
    import('../packages/server/dist/servers/embedded/embedded.js'),
    import('../packages/server/dist/servers/embedded/master-key.js'),
  ]);
  const { key } = readKeyFile(masterKeyFile(data));
  return embeddedAddress(data, key);
}

/** The superuser's URL for a database of the service with this data folder. */
export async function superuserUrl(data, database = 'postgres') {
  const { host, port, user, password } = await superuserAddress(data);
  return `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`;
}

/**
 * Runs wrk. `request` is Lua that returns one request; `headers` is Lua, and so is `before`, which runs once.
 * An answer that is not 2xx is an error. With `refusals` such answers are counted instead, and are not part of the rate.
 */
export function wrk(folder, url, load) {
  const script = path.join(folder, 'wrk.lua');
  return readWrk(execFileSync('wrk', writeWrk(script, url, load), { encoding: 'utf8' }), load);
}

/** Several loads at the same time, as [url, load]. */
export async function wrkTogether(folder, loads) {
  const execute = promisify(execFile);
  return Promise.all(
    loads.map(async ([url, load], index) => {
      const script = path.join(folder, `wrk-${index}.lua`);
      return readWrk((await execute('wrk', writeWrk(script, url, load))).stdout, load);
    }),
  );
}

/** Writes the script and returns the arguments. */
function writeWrk(script, url, { headers = '', before = '', request, connections, seconds }) {
  writeFileSync(
    script,
    `math.randomseed(os.time())
local headers = { ['content-type'] = 'application/json'${headers} }
${before}
request = function() ${request} end
done = function(summary, latency)
  io.write(string.format('measured %d %d %d\\n', summary.requests, summary.duration, summary.errors.status))
  for i = 1, #latency do io.write(string.format('took %d %d\\n', latency(i))) end
end
`,
  );
  return ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '30s', '--latency', '-s', script, url];
}

function readWrk(out, { connections, refusals = false }) {
  if (!refusals && /Non-2xx/.test(out)) throw new Error(out);
  const [requests, us, refused] = /^measured (.*)$/m.exec(out)[1].split(' ').map(Number);
  const took = [...out.matchAll(/^took (\d+) (\d+)$/gm)].map(([, value, count]) => [+value, +count]);
  const expected = Math.floor(us / Math.max(1, Math.floor(requests / Number(connections))));
  const counted = withoutAdded(took, expected);
  const total = counted.reduce((sum, [, count]) => sum + count, 0);
  if (total !== requests) throw new Error(`wrk reports ${total} latencies for ${requests} requests.`);
  return {
    rate: ((requests - refused) * 1e6) / us,
    /** p50, p99 and p99.9 in milliseconds. */
    ms: percentiles(counted),
    requests,
    refused,
  };
}

/**
 * Removes the latencies that wrk adds. For a slow answer, wrk adds those of the requests that it delayed, `expected` apart;
 * pgbench does not. Nothing is added at the slowest latency, so starting there the additions below it can be computed.
 */
export function withoutAdded(took, expected) {
  const counts = new Map(took);
  for (const [value] of took.toReversed()) {
    const count = counts.get(value);
    if (value < 2 * expected || count === 0) continue;
    for (let added = value - expected; added > expected; added -= expected)
      counts.set(added, counts.get(added) - count);
  }
  return [...counts];
}

/** p50 and p99, formatted. */
export function latency({ ms }) {
  const [p50, p99] = ms.map((value) => (value < 100 ? value.toPrecision(3) : value.toFixed(0)));
  return `${p50} / ${p99}`;
}

/** p50, p99 and p99.9 in milliseconds, from pairs of microseconds and count, in ascending order. */
function percentiles(took) {
  const total = took.reduce((sum, [, count]) => sum + count, 0);
  return [0.5, 0.99, 0.999].map((part) => {
    let seen = 0;
    for (const [us, count] of took) {
      seen += count;
      if (seen >= total * part) return us / 1000;
    }
    return 0;
  });
}

/** Lua for wrk: a query in which $1 is a random id. `target` is Lua for the path, if it differs from the URL's. */
export function queryRequest(statement, { highestId = lastId, target = 'nil' } = {}) {
  const text = JSON.stringify(statement).replaceAll("'", "\\'");
  const parameters = statement.includes('$1') ? `[' .. math.random(1, ${highestId}) .. ']` : '[]';
  return `return wrk.format('POST', ${target}, headers, '{"query":${text},"params":${parameters}}')`;
}

/**
 * Runs the same load with pgbench, without HTTP and JSON: the upper limit. Returns what wrk() returns; latencies only with
 * `logged`, because logging slows pgbench down.
 */
export function pgbench(
  folder,
  url,
  statement,
  { seconds, highestId = lastId, mode = 'prepared', clients = 10, threads = 1, logged = false },
) {
  const script = path.join(folder, 'pgbench.sql');
  const set = statement.includes('$1') ? `\\set id random(1, ${highestId})\n` : '';
  writeFileSync(script, `${set}${statement.replace('$1', ':id')};\n`);
  const log = path.join(folder, 'pgbench-log');
  const logging = logged ? ['-l', '--log-prefix', log] : [];
  const options = [
    '-n',
    '-M',
    mode,
    '-c',
    clients,
    '-j',
    threads,
    '-T',
    seconds,
    '-f',
    script,
    ...logging,
    url,
  ];
  const out = execFileSync('pgbench', options.map(String), {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const [, tps] = /tps = ([\d.]+)/.exec(out) ?? [];
  if (!tps) throw new Error(`pgbench completed no transaction in ${seconds} s: ${out}`);
  const rate = Number(tps);
  return { rate, requests: rate * Number(seconds), refused: 0, ...(logged && { ms: readLog(log) }) };
}

/** p50, p99 and p99.9 in milliseconds. */
function readLog(prefix) {
  const counts = new Map();
  for (const name of readdirSync(path.dirname(prefix))) {
    if (!name.startsWith(path.basename(prefix))) continue;
    const file = path.join(path.dirname(prefix), name);
    for (const line of readFileSync(file, 'utf8').trim().split('\n')) {
      const us = Number(line.split(' ')[2]);
      counts.set(us, (counts.get(us) ?? 0) + 1);
    }
    rmSync(file);
  }
  return percentiles([...counts].sort(([a], [b]) => a - b));
}

export function median(list) {
  const sorted = [...list].sort((a, b) => a - b);
  const half = sorted.length / 2;
  return Number.isInteger(half) ? (sorted[half - 1] + sorted[half]) / 2 : sorted[Math.floor(half)];
}

/** Ratios of neighbouring turns, because the machine's speed changes over time. */
export function ratios(ours, theirs) {
  return ours.map((rate, turn) => rate / theirs[turn]);
}

/** The median of `ratios`. */
export function ratio(ours, theirs) {
  return median(ratios(ours, theirs));
}

/** Completions per second, from the first to the last: independent of when the clock was started. */
export function rateOf(doneAt) {
  if (doneAt.length < 2) throw new Error('Too few completions for a rate: use a larger --seconds.');
  return ((doneAt.length - 1) * 1000) / (doneAt.at(-1) - doneAt[0]);
}
