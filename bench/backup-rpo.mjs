// RPO: a service with writers is killed with everything, and restored from its backups alone. What it had acknowledged and is not
// there any more was written in the last so many seconds.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { start, startService, stop } from './load.mjs';

const root = path.resolve(import.meta.dirname, '..');
const writers = 4;
const [shortestMs, longestMs] = [3_000, 6_000];

/** Seconds of work that were lost in each run. `url`: where the backups of a run are. */
export async function measureRpo(folder, runs, { name, url, env = {} }) {
  const lost = [];
  for (let run = 0; run < runs; run++) {
    const place = path.join(folder, `rpo-${name}-${run}`);
    mkdirSync(place);
    lost.push(await destroyAndRestore(place, { ...env, ROWHOUSE_BACKUP_URL: url(run) }));
    console.error(`RPO, ${name}, run ${run + 1}: ${lost.at(-1).toFixed(2)} s`);
  }
  return lost;
}

async function destroyAndRestore(place, env) {
  const service = await startService(place, undefined, env);
  while ((await service.asAccount('GET', '/backups')).backups.length === 0) await sleep(200);
  await service.query('create table marks (id int primary key, pad text)');
  const acknowledged = new Map();
  let isOver = false;
  const write = async (writer) => {
    for (let n = 0; !isOver; n++) {
      const id = n * writers + writer;
      await service.query(`insert into marks values (${id}, repeat(md5(random()::text), 30))`);
      acknowledged.set(id, Date.now());
    }
  };
  const writing = Array.from({ length: writers }, (_, writer) => write(writer).catch(() => {}));
  await sleep(shortestMs + Math.random() * (longestMs - shortestMs));
  const killedAt = Date.now();
  killAll(service);
  isOver = true;
  await Promise.all([...writing, once(service.child, 'exit')]);

  const data = path.join(place, 'restored');
  mkdirSync(data);
  const masterKey = readFileSync(path.join(service.data, 'master.key'), 'utf8').trim();
  restore({ ...env, ROWHOUSE_DATA: data, ROWHOUSE_MASTER_KEY: masterKey });
  const found = await readMarks(service, data);
  const missing = [...acknowledged].filter(([id]) => !found.has(id)).map(([, at]) => at);
  if (acknowledged.size === 0) throw new Error('Nothing was written.');
  return missing.length === 0 ? 0 : (killedAt - Math.min(...missing)) / 1000;
}

/** The postmaster too: its sessions end when they notice. */
function killAll({ child, data }) {
  const [postmaster] = readFileSync(path.join(data, 'postgres/postmaster.pid'), 'utf8').split('\n');
  child.removeAllListeners('exit');
  for (const pid of [Number(postmaster), child.pid]) process.kill(pid, 'SIGKILL');
}

function restore(env) {
  const program = path.join(root, 'packages/server/dist/programs/restore.js');
  const output = execFileSync(process.execPath, [program, ''], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  const answer = JSON.parse(output.trim().split('\n').at(-1));
  if (!answer.ok) throw new Error(JSON.stringify(answer));
}

async function readMarks({ url, port, key }, data) {
  const restored = await start(
    'packages/server/dist/main.js',
    { ROWHOUSE_DATA: data, ROWHOUSE_PORT: String(port), ROWHOUSE_BACKUP_URL: 'off' },
    /^ready$/m,
  );
  try {
    const response = await fetch(`${url}/query`, {
      method: 'POST',
      // The connections to the service that was killed are not to be used.
      headers: { 'x-api-key': key, 'content-type': 'application/json', connection: 'close' },
      body: JSON.stringify({ query: 'select id from marks' }),
    });
    const answer = await response.json();
    if (!answer.ok) throw new Error(JSON.stringify(answer));
    return new Set(answer.rows.map(({ id }) => id));
  } finally {
    await stop(restored);
  }
}

const version = '1.8.0';
const credentials = {
  AWS_ACCESS_KEY_ID: 'ROWHOUSEBENCH',
  AWS_SECRET_ACCESS_KEY: 'a secret of the benchmark',
};

/** versitygw, an S3 server that checks signatures. null: it is not here and Go cannot build it. */
export async function startS3(folder) {
  const program = findS3();
  if (!program) return null;
  const bucket = path.join(folder, 's3', 'backups');
  const sidecar = path.join(folder, 'attributes-of-s3');
  for (const made of [bucket, sidecar]) mkdirSync(made, { recursive: true });
  const port = await freePort();
  const args = ['--port', `127.0.0.1:${port}`, 'posix', '--sidecar', sidecar, path.dirname(bucket)];
  const child = spawn(program, args, {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      ...process.env,
      ROOT_ACCESS_KEY: credentials.AWS_ACCESS_KEY_ID,
      ROOT_SECRET_KEY: credentials.AWS_SECRET_ACCESS_KEY,
    },
  });
  while (!(await answers(port))) {
    if (child.exitCode !== null) throw new Error('The S3 server does not start.');
    await sleep(50);
  }
  return {
    name: 's3',
    url: (run) => `s3://backups/run-${run}?endpoint=http://127.0.0.1:${port}`,
    env: credentials,
    stop: async () => {
      child.kill('SIGTERM');
      await once(child, 'exit');
    },
  };
}

/** The tests build it in the same place. */
function findS3() {
  const tools = path.join(root, 'node_modules/.cache/rowhouse-tools');
  const program = path.join(tools, `versitygw-${version}`);
  if (existsSync(program)) return program;
  const args = ['install', `github.com/versity/versitygw/cmd/versitygw@v${version}`];
  const env = { ...process.env, GOFLAGS: '', GOBIN: tools };
  if (spawnSync('go', args, { env, stdio: 'ignore' }).status === 0) return path.join(tools, 'versitygw');
  console.error('SKIPPED: there is no S3 server, and Go cannot build versitygw.');
  return null;
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

function answers(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });
}
