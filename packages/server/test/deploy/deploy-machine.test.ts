// deploy/machine, as far as it can be checked without a container. reverse-proxies.long.test.ts runs its proxies,
// deploy-image.long.test.ts what the image runs, and deploy-container.long.test.ts builds and runs the image.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { isOpenWithoutTls, readConfig } from '../../src/settings/config.ts';
import { findProgram } from '../support/programs.ts';
import { root } from '../support/toolchains.ts';

type Service = {
  image: string;
  build?: string;
  environment: Record<string, string>;
  ports?: string[];
  volumes?: string[];
  networks: Record<string, { ipv4_address: string }> | string[];
  cap_drop?: string[];
  read_only?: boolean;
};

const folder = path.join(root, 'deploy', 'machine');
const read = (file: string) => readFileSync(path.join(folder, file), 'utf8');
const compose = parse(read('compose.yaml')) as {
  services: Record<'rowhouse' | 'caddy', Service>;
  volumes: object;
};
const external = parse(read('compose.external.yaml')) as { services: { rowhouse: Service } };
const dockerfile = readFileSync(path.join(root, 'Dockerfile'), 'utf8');
const filledIn: Record<string, string> = {
  PUBLIC_HOST: 'db.example.com',
  DATABASE_URL: 'postgres://user:password@host:5432/postgres',
  MASTER_KEY: 'ab'.repeat(32),
};
const fill = (values: Record<string, string>) =>
  Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      value.replace(/\$\{(\w+):\?[^}]*\}/g, (_, variable: string) => filledIn[variable] ?? ''),
    ]),
  );
/** The settings that the image sets. */
const given = Object.fromEntries(
  [...dockerfile.matchAll(/\b(ROWHOUSE_\w+)=(\S+)/g)].map(([, name = '', value]) => [name, value]),
);
const { rowhouse, caddy } = compose.services;

it('the service starts with these settings, and only Caddy is trusted to name the client', () => {
  const config = readConfig({ ...given, ...fill(rowhouse.environment) }, '/data');
  expect(config).toMatchObject({ host: '0.0.0.0', dataFolder: '/data', consoleHosts: ['db.example.com'] });
  expect(isOpenWithoutTls(config)).toBe(false);
  const { front } = caddy.networks as Record<string, { ipv4_address: string }>;
  expect(config.trustedProxies).toEqual([front?.ipv4_address]);
  const outside = readConfig(
    { ...given, ...fill({ ...rowhouse.environment, ...external.services.rowhouse.environment }) },
    '/data',
  );
  expect(outside).toMatchObject({ databaseUrl: filledIn.DATABASE_URL, backup: 'off' });
});

it('only Caddy is reachable, the service has no rights, and nothing is lost with a container', () => {
  expect(rowhouse.ports).toBeUndefined();
  expect(caddy.ports).toEqual(['80:80', '443:443', '443:443/udp']);
  expect([rowhouse.cap_drop, rowhouse.read_only]).toEqual([['ALL'], true]);
  const mounted = Object.values(compose.services)
    .flatMap(({ volumes = [] }) => volumes)
    .map((volume) => volume.split(':')[0])
    .filter((name) => !name?.startsWith('.'));
  expect(mounted.sort()).toEqual(Object.keys(compose.volumes).sort());
  // Both folders exist in the image and belong to its user, or the service could not write to the volumes.
  expect(dockerfile).toMatch(/install .*--owner=node .*\/data \/backups$/m);
});

it('every image has an exact version, and every variable is in .env.example, without a value', () => {
  expect(caddy.image).toMatch(/^caddy:\d+\.\d+\.\d+$/);
  expect(rowhouse).toMatchObject({ image: 'rowhouse:local', build: '../..' });
  const used = [...(read('compose.yaml') + read('compose.external.yaml')).matchAll(/\$\{(\w+)(.*?)\}/g)];
  for (const [, name, rest] of used) expect(rest).toBe(`:?Set ${name} in .env`);
  const named = [...read('.env.example').matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]);
  expect(named).toEqual([...new Set(used.map(([, name]) => name))].map((name) => [name, '']));
});

const hasCompose = spawnSync('docker', ['compose', 'version']).status === 0;
if (!hasCompose)
  console.warn('SKIPPED: docker compose is not installed, so it does not check deploy/machine.');

it.skipIf(!hasCompose)('docker compose accepts both variants', () => {
  for (const files of [[], ['--file', 'compose.yaml', '--file', 'compose.external.yaml']]) {
    const { status, stderr } = spawnSync('docker', ['compose', ...files, 'config', '--quiet'], {
      cwd: folder,
      env: { ...process.env, ...filledIn },
      encoding: 'utf8',
    });
    expect(status, stderr).toBe(0);
  }
});

it('hadolint finds no error and no warning in Dockerfile', async ({ skip }) => {
  const hadolint = await findProgram('hadolint', 'it does not check Dockerfile');
  if (!hadolint) return skip();
  const args = ['--failure-threshold', 'warning', 'Dockerfile'];
  const { status, stdout } = spawnSync(hadolint, args, { cwd: root, encoding: 'utf8' });
  expect(status, stdout).toBe(0);
});
