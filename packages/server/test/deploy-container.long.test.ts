// Dockerfile in a real container: podman builds it and runs the image as deploy/machine/compose.yaml says. Its base image is made
// here, of the same Debian and this Node.js, so that the test needs Debian's archive and npm only.
import { execFile, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { parse } from 'yaml';
import { api, until } from './helpers.ts';
import { freePort } from './process.ts';
import { buildTimeoutMs, root } from './toolchains.ts';

type Service = {
  read_only: boolean;
  tmpfs: string[];
  cap_drop: string[];
  security_opt: string[];
  shm_size: string;
  volumes: string[];
};

const compose = path.join(root, 'deploy/machine/compose.yaml');
const { services } = parse(readFileSync(compose, 'utf8')) as { services: { rowhouse: Service } };
const dockerfile = readFileSync(path.join(root, 'Dockerfile'), 'utf8');
const base = /^FROM (\S+)/m.exec(dockerfile)?.[1] ?? '';

const missing = ['podman', 'runc', 'debootstrap'].filter((name) => spawnSync(name, ['--version']).error);
const reason =
  process.getuid?.() !== 0 ? 'it needs root' : missing.length > 0 && `${missing.join(', ')} not installed`;
if (reason) console.warn(`SKIPPED: ${reason}, so no image is built from Dockerfile and run.`);

const place = mkdtempSync(path.join(inject('sharedFolder'), 'container-'));
const run = async (program: string, args: string[]) =>
  (await promisify(execFile)(program, args, { timeout: buildTimeoutMs, maxBuffer: 1 << 26 })).stdout.trim();
/** Images, containers and volumes are in a folder of the test. */
const folders = ['root', 'runroot', 'tmpdir'].flatMap((name) => [`--${name}`, path.join(place, name)]);
const podman = (...args: string[]) =>
  run('podman', [...folders, '--runtime', 'runc', '--cgroup-manager', 'cgroupfs', ...args]);

describe.skipIf(reason)('the image', { timeout: buildTimeoutMs }, () => {
  beforeAll(async () => {
    await makeBase();
    // A network may have a certificate authority or a registry of its own.
    const registry = await run('npm', ['config', 'get', 'registry']);
    const npmrc = path.join(place, 'npmrc');
    writeFileSync(npmrc, `registry=${registry}\ncafile=/etc/ssl/certs/ca-certificates.crt\n`);
    const mounts = ['/etc/ssl/certs:/etc/ssl/certs:ro', `${npmrc}:/root/.npmrc:ro`];
    await podman(
      ...['build', '--format', 'docker', '--pull=never', '--isolation', 'chroot', '--network', 'host'],
      ...mounts.flatMap((mount) => ['--volume', mount]),
      ...['--tag', 'rowhouse:local', root],
    );
  }, buildTimeoutMs);
  afterAll(async () => {
    await podman('rm', '--force', '--all', '--time', '0');
    spawnSync('umount', [path.join(place, 'root/overlay')]);
    rmSync(place, { recursive: true, force: true });
  });

  it('runs without rights on a file system that it cannot write to, becomes healthy, and leaves everything in its volumes', async () => {
    const first = await start();
    const logs = await podman('logs', first.id);
    const headers = {
      'x-api-key': /rh_acct_\w+/.exec(logs)?.[0] ?? '',
      'content-type': 'application/json',
    };
    const post = async (port: number, target: string, body: object) => {
      const url = `http://127.0.0.1:${port}${api}/projects${target}`;
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
      return [response.status, await response.json()] as const;
    };
    expect(await podman('exec', first.id, 'id', '-u')).toBe('1000');
    await expect(podman('exec', first.id, 'touch', '/rowhouse/file')).rejects.toThrow(
      'Read-only file system',
    );
    expect((await post(first.port, '', { name: 'Tea', slug: 'tea' }))[0]).toBe(201);
    expect((await post(first.port, '/tea/query', { query: 'create table t as select 42 as n' }))[0]).toBe(
      200,
    );
    await stop(first.id);

    const second = await start();
    const [, body] = await post(second.port, '/tea/query', { query: 'select n from t' });
    expect(body).toMatchObject({ rows: [{ n: 42 }] });
    await stop(second.id);
  });
});

/** A container with the rights and the volumes of compose.yaml, on the network of this machine. */
async function start(): Promise<{ id: string; port: number }> {
  const { rowhouse } = services;
  expect(rowhouse.read_only).toBe(true);
  const port = await freePort();
  const id = await podman(
    ...['run', '--detach', '--network', 'host', '--read-only', '--shm-size', rowhouse.shm_size],
    ...rowhouse.tmpfs.flatMap((mount) => ['--tmpfs', mount]),
    ...rowhouse.cap_drop.flatMap((name) => ['--cap-drop', name]),
    ...rowhouse.security_opt.flatMap((option) => ['--security-opt', option]),
    ...rowhouse.volumes.flatMap((volume) => ['--volume', volume]),
    // podman's own are higher than some machines allow.
    ...['--ulimit', 'nofile=4096:4096', '--ulimit', 'nproc=4096:4096'],
    ...['--env', `ROWHOUSE_PORT=${port}`, '--env', 'ROWHOUSE_HOST=127.0.0.1'],
    ...['--env', 'ROWHOUSE_BACKUP_URL=file:/backups', 'rowhouse:local'],
  );
  const isHealthy = () =>
    podman('healthcheck', 'run', id)
      .then(() => true)
      .catch(() => false);
  await until('it is healthy', isHealthy, 120_000);
  return { id, port };
}

/** As Docker does, and without a trace of the container but its volumes. */
async function stop(id: string): Promise<void> {
  await podman('stop', '--time', '60', id);
  expect(await podman('inspect', '--format', '{{.State.ExitCode}}', id)).toBe('0');
  await podman('rm', id);
}

/** Makes an image with the parts of the official image of Node.js that Dockerfile uses. */
async function makeBase(): Promise<void> {
  const [, release = ''] = /-(\w+)-slim$/.exec(base) ?? [];
  const files = path.join(place, 'base');
  await run('debootstrap', ['--variant=minbase', release, files]);
  const local = path.join(files, 'usr/local');
  cpSync(process.execPath, path.join(local, 'bin/node'));
  const npm = path.join(await run('npm', ['root', '--global']), 'npm');
  expect(existsSync(npm), npm).toBe(true);
  mkdirSync(path.join(local, 'lib/node_modules'), { recursive: true });
  cpSync(npm, path.join(local, 'lib/node_modules/npm'), { recursive: true, verbatimSymlinks: true });
  for (const name of ['npm', 'npx'])
    symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, path.join(local, 'bin', name));
  await run('chroot', [files, 'useradd', '--uid', '1000', '--create-home', 'node']);
  const archive = path.join(place, 'base.tar');
  await run('tar', ['-cf', archive, '-C', files, '.']);
  await podman('import', '--quiet', archive, base);
  for (const made of [files, archive]) rmSync(made, { recursive: true });
}
