// What the benchmarks share: a service of their own, wrk, pgbench, and the CPU time of a process.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { familyOf } from './processes.mjs';

const root = path.resolve(import.meta.dirname, '..');

export function needTools(...tools) {
  const packages = { wrk: 'wrk', pgbench: 'postgresql-client', psql: 'postgresql-client' };
  for (const tool of tools) {
    if (!spawnSync(tool, ['--version']).error) continue;
    console.error(`${tool} is not on this machine: apt-get install ${packages[tool]}`);
    process.exit(1);
  }
}

export function start(script, env, ready) {
  const child = spawn(process.execPath, [path.resolve(root, script)], {
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

export async function stop({ child }) {
  child.removeAllListeners('exit');
  child.kill('SIGTERM');
  await once(child, 'exit');
}

/** A service with a project in it; `env`: settings of its own. */
export async function startService(folder, script = 'packages/server/dist/main.js', env = {}) {
  const port = 20_000 + Math.floor(Math.random() * 10_000);
  const api = `http://127.0.0.1:${port}/api/dbaas/v2`;
  const { makeKey } = await import('../packages/server/dist/keys/form.js');
  const account = makeKey('rh_acct_');
  const service = await start(
    script,
    {
      ROWHOUSE_DATA: path.join(folder, 'data'),
      ROWHOUSE_PORT: String(port),
      ROWHOUSE_ACCOUNT_KEY: account,
      ...env,
    },
    /^ready$/m,
  );
  const call = async (method, target, key, body) => {
    const headers = { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) };
    const response = await fetch(api + target, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    });
    const answer = await response.json();
    if (!answer.ok) throw new Error(JSON.stringify(answer));
    return answer;
  };
  const makeProject = async (name, limitMb = 4000) => {
    const { project, api_key: key } = await call('POST', '/projects', account, { name, limit_mb: limitMb });
    const target = `/projects/${project.slug}`;
    return {
      key,
      url: api + target,
      call: (method, rest, body) => call(method, target + rest, key, body),
      query: (text, more = {}) =>
        call('POST', `${target}/query`, key, { query: text, timeout_ms: 120_000, ...more }),
    };
  };
  const project = await makeProject('Bench');
  const { connection } = await project.call('GET', '/connection');
  return { ...service, port, ...project, databaseUrl: connection.url, makeProject };
}

/**
 * Requests a second by wrk. `request` is Lua that returns one; `headers` is Lua too, and so is `before`, which runs once.
 * Any answer that is not 2xx is an error, unless `refusals`: then they are counted, and are not part of the rate.
 */
export function wrk(
  folder,
  url,
  { headers = '', before = '', request, connections, seconds, refusals = false },
) {
  const script = path.join(folder, 'wrk.lua');
  writeFileSync(
    script,
    `math.randomseed(os.time())
local headers = { ['content-type'] = 'application/json'${headers} }
${before}
request = function() ${request} end
done = function(summary, latency)
  io.write(string.format('measured %d %d %d %d %d %d\\n', summary.requests, summary.duration, summary.errors.status,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
`,
  );
  const options = [
    '-t1',
    `-c${connections}`,
    `-d${seconds}s`,
    '--timeout',
    '30s',
    '--latency',
    '-s',
    script,
    url,
  ];
  const out = execFileSync('wrk', options, { encoding: 'utf8' });
  if (!refusals && /Non-2xx/.test(out)) throw new Error(out);
  const latency = (name) => new RegExp(`^\\s+${name}\\s+(\\S+)`, 'm').exec(out)?.[1];
  const measured = /^measured (.*)$/m.exec(out)[1].split(' ').map(Number);
  const [requests, us, refused, ...percentiles] = measured;
  return {
    rate: ((requests - refused) * 1e6) / us,
    p50: latency('50%'),
    p99: latency('99%'),
    /** p50, p99 and p99.9 in milliseconds. */
    ms: percentiles.map((value) => value / 1000),
    requests,
    refused,
  };
}

/** CPU time of a process, in milliseconds. */
export function cpuMs({ child }) {
  const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** CPU time of a process and of all that it has started, those that have ended among them, in milliseconds. */
export function familyCpuMs(pid) {
  let ticks = 0;
  for (const member of familyOf(pid)) {
    try {
      const fields = readFileSync(`/proc/${member}/stat`, 'utf8').split(') ')[1].split(' ');
      for (const field of fields.slice(11, 15)) ticks += Number(field);
    } catch {
      // It has ended since: its time is in its parent's from now on.
    }
  }
  return ticks * 10;
}

export function median(list) {
  const sorted = [...list].sort((a, b) => a - b);
  const half = sorted.length / 2;
  return Number.isInteger(half) ? (sorted[half - 1] + sorted[half]) / 2 : sorted[Math.floor(half)];
}

/** Ratios of neighbouring turns, because the machine's own speed changes. */
export function ratios(ours, theirs) {
  return ours.map((rate, turn) => rate / theirs[turn]);
}

/** The median of them. */
export function ratio(ours, theirs) {
  return median(ratios(ours, theirs));
}

/** How many a second, from the first to the last: it does not matter when the clock was started. */
export function rateOf(doneAt) {
  return ((doneAt.length - 1) * 1000) / (doneAt.at(-1) - doneAt[0]);
}
