// Dockerfile in a real container: podman builds it and runs the image as deploy/machine/compose.yaml says. containers.ts makes
// its base image.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { api, until } from '../support/helpers.ts';
import { freePort } from '../support/process.ts';
import { buildTimeoutMs, root } from '../support/toolchains.ts';
import {
  containersSkipReason,
  makeNodeImage,
  makePlace,
  mountsForBuilds,
  openPodman,
  removePlace,
} from './containers.ts';

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

const reason = containersSkipReason('no image is built from Dockerfile and run');
const place = makePlace();
const podman = openPodman(place);

describe.skipIf(reason)('the image', { timeout: buildTimeoutMs }, () => {
  beforeAll(async () => {
    await makeNodeImage(podman, place, base);
    const mounts = await mountsForBuilds(place);
    await podman(
      ...['build', '--format', 'docker', '--pull=never', '--isolation', 'chroot', '--network', 'host'],
      ...mounts.flatMap((mount) => ['--volume', mount]),
      ...['--tag', 'rowhouse:local', root],
    );
  }, buildTimeoutMs);
  afterAll(async () => {
    await podman('rm', '--force', '--all', '--time', '0');
    removePlace(place);
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
