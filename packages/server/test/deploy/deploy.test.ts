// The files in deploy/, as far as they can be checked without a container. patroni.long.alone.test.ts runs a cluster with
// deploy/patroni.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { parseDatabaseUrl } from '../../src/servers/external.ts';
import { readConfig } from '../../src/settings/config.ts';
import { lackedByPostgres } from '../../src/settings/security-fixes.ts';
import { root } from '../support/toolchains.ts';

type Service = {
  image: string;
  environment?: Record<string, string>;
  ports?: string[];
  networks: string[] | Record<string, { ipv4_address: string }>;
};

const folder = path.join(root, 'deploy');
const read = (file: string) => readFileSync(path.join(folder, file), 'utf8');
const compose = parse(read('compose.yaml'), { merge: true }) as { services: Record<string, Service> };
const { services } = compose;
const named = (prefix: string) => Object.entries(services).filter(([name]) => name.startsWith(prefix));
const variables = [...read('.env.example').matchAll(/^(\w+)=(.*)$/gm)].map(([, name = '', value]) => ({
  name,
  value,
}));
/** As an operator would fill in .env. */
const filledIn: Record<string, string> = Object.fromEntries(
  variables.map(({ name }) => [name, name === 'PUBLIC_HOST' ? 'db.example.com' : 'ab'.repeat(32)]),
);
const fill = (text: string) =>
  text.replace(/\$\{(\w+):\?[^}]*\}/g, (_, name: string) => filledIn[name] ?? '');
const environmentOf = (name: string) =>
  Object.fromEntries(
    Object.entries(services[name]?.environment ?? {}).map(([key, value]) => [key, fill(value)]),
  );

it('compose.yaml demands every secret, and .env.example names each without a value', () => {
  const used = [...read('compose.yaml').matchAll(/\$\{([^}]*)\}/g)].map(([, inner = '']) => inner);
  const demanded = used.map((inner) => /^(\w+):\?Set \1 in \.env$/.exec(inner)?.[1]);
  expect(new Set(demanded)).toEqual(new Set(variables.map(({ name }) => name)));
  expect(variables.filter(({ value }) => value !== '')).toEqual([]);
  for (const { environment = {} } of Object.values(services)) {
    const secrets = Object.entries(environment).filter(([name]) => /PASSWORD|_KEY|_URL$/.test(name));
    for (const [name, value] of secrets.filter(([key]) => !key.startsWith('ETCD_')))
      expect(value, name).toContain(':?');
  }
});

it('every image has an exact version, and both places that name PostgreSQL and Patroni agree', () => {
  const files = ['../Dockerfile', 'patroni/Dockerfile'].map(read).join('\n');
  const bases = [...files.matchAll(/^FROM (\S+)/gm)].map(([, image = '']) => image);
  const built = ['rowhouse:local'];
  const images = [...bases, ...Object.values(services).map(({ image }) => image)];
  for (const image of images.filter((each) => !built.includes(each)))
    expect(image).toMatch(/:v?\d+\.\d+(\.\d+)?(-[\w.-]+)?$/);
  const postgres = /postgres:([\d.]+)/.exec(files)?.[1];
  const patroni = /^patroni\[etcd3\]==(.*)$/m.exec(read('patroni/requirements.txt'))?.[1];
  expect(services.pg1?.image).toBe(`rowhouse-patroni:${postgres}-${patroni}`);
});

it('PostgreSQL has all security fixes that this release knows', () => {
  const version = /postgres:([\d.]+)/.exec(read('patroni/Dockerfile'))?.[1];
  expect(lackedByPostgres(version ?? '')).toBeNull();
  expect(version).toMatch(/^\d+\.\d+$/);
});

it('the API processes start with these settings, and know every PostgreSQL node', () => {
  const hosts = named('pg').map(([name]) => ({ host: name, port: 5432 }));
  expect(hosts.length).toBe(3);
  for (const name of ['api1', 'api2']) {
    const config = readConfig(environmentOf(name), '/data');
    expect(parseDatabaseUrl(config.databaseUrl ?? '').primary?.hosts).toEqual(hosts);
    expect(config).toMatchObject({ publicHost: 'db.example.com', postgresPort: 5432 });
  }
  expect(environmentOf('api1')).toEqual(environmentOf('api2'));
});

it("nothing is reachable from other machines, and only HAProxy's X-Forwarded-For is trusted", () => {
  for (const [name, { ports = [] }] of Object.entries(services)) {
    for (const port of ports) expect(port, name).toMatch(/^127\.0\.0\.1:/);
    if (!/^(api|haproxy)/.test(name)) expect(ports, name).toEqual([]);
  }
  const networks = services.haproxy?.networks as Record<string, { ipv4_address: string }>;
  expect(readConfig(environmentOf('api1'), '/data').trustedProxies).toEqual([networks.cluster?.ipv4_address]);
});

it('each PostgreSQL node gets the settings with which the cluster of the tests runs', async () => {
  const { environmentOf: ofTheTests } = (await import(path.join(root, 'scripts/patroni-cluster.mjs'))) as {
    environmentOf(name: string, node: object, etcd: string, bin: string): Record<string, string>;
  };
  const tested = Object.keys(ofTheTests('n1', { folder: '' }, '', '')).sort();
  const inImage = [...read('patroni/Dockerfile').matchAll(/\b(PATRONI_\w+)=/g)].map(([, name = '']) => name);
  for (const [name] of named('pg')) {
    const given = environmentOf(name);
    expect([...Object.keys(given), ...inImage].sort()).toEqual(tested);
    expect(given).toMatchObject({ PATRONI_NAME: name, PATRONI_POSTGRESQL_CONNECT_ADDRESS: `${name}:5432` });
    expect(given.PATRONI_ETCD3_HOSTS).toBe(
      named('etcd')
        .map(([each]) => `'${each}:2379'`)
        .join(','),
    );
  }
});

it('HAProxy asks /readyz of every API process', () => {
  const config = read('haproxy.cfg');
  for (const [name] of named('api')) {
    expect(config).toContain(`server ${name} ${name}:8765\n`);
    expect(config).toContain(`server ${name} ${name}:5432 port 8765\n`);
  }
  expect(config.match(/option httpchk GET \/readyz/g)?.length).toBe(3);
});

const can = (command: string, ...args: string[]) => spawnSync(command, args).status === 0;
const hasCompose = can('docker', 'compose', 'version');
const hasProxy = can('haproxy', '-v');
if (!hasCompose) console.warn('SKIPPED: docker compose is not installed, so it does not check compose.yaml.');
if (!hasProxy) console.warn('SKIPPED: HAProxy is not installed, so it does not check haproxy.cfg.');

it.skipIf(!hasCompose)('docker compose accepts compose.yaml, and refuses it without a secret', () => {
  const config = (env: NodeJS.ProcessEnv) =>
    spawnSync('docker', ['compose', '--profile', 'haproxy', 'config', '--format', 'json'], {
      cwd: folder,
      env: { ...process.env, ...env },
      encoding: 'utf8',
    });
  const accepted = config(filledIn);
  expect(accepted.status, accepted.stderr).toBe(0);
  expect(Object.keys(JSON.parse(accepted.stdout).services).sort()).toEqual(Object.keys(services).sort());
  for (const { name } of variables) {
    const { status, stderr } = config({ ...filledIn, [name]: '' });
    expect([status === 0, stderr.includes(`Set ${name} in .env`)], name).toEqual([false, true]);
  }
});

it.skipIf(!hasProxy)('HAProxy accepts haproxy.cfg', () => {
  const { status, stderr } = spawnSync('haproxy', ['-c', '-f', path.join(folder, 'haproxy.cfg')], {
    encoding: 'utf8',
  });
  expect(status, stderr).toBe(0);
});
