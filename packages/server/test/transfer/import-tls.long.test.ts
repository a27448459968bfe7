import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Database } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { clusterFolderOf, startEmbedded } from '../../src/servers/embedded/embedded.ts';
import { api, asAdmin, until } from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder, type Running, usedDataFolder } from '../support/process.ts';

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
if (!hasOpenssl) console.warn('SKIPPED: openssl is not installed, so no import over TLS is tried.');

const names = { right: 'IP:127.0.0.1', wrong: 'DNS:elsewhere.example.com' };
type Certificate = 'unknown' | 'trusted' | 'misnamed';
let certificates: string;
/** An authority; two certificates by it, one of them for another host; and one by nobody. */
function makeCertificates(folder: string): void {
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' });
  const key = ['-newkey', 'rsa:2048', '-nodes', '-days', '2'];
  openssl('req', '-x509', ...key, '-subj', '/CN=test authority', '-keyout', 'ca.key', '-out', 'ca.pem');
  const self = ['-subj', '/CN=source', '-addext', `subjectAltName=${names.right}`];
  openssl('req', '-x509', ...key, ...self, '-keyout', 'unknown.key', '-out', 'unknown.pem');
  for (const [file, name] of [
    ['trusted', names.right],
    ['misnamed', names.wrong],
  ] as const) {
    writeFileSync(path.join(folder, `${file}.ext`), `subjectAltName=${name}\n`);
    openssl(
      'req',
      ...key.slice(0, 3),
      '-subj',
      '/CN=source',
      '-keyout',
      `${file}.key`,
      '-out',
      `${file}.csr`,
    );
    const by = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2'];
    openssl('x509', '-req', '-in', `${file}.csr`, ...by, '-extfile', `${file}.ext`, '-out', `${file}.pem`);
  }
}

let source: Awaited<ReturnType<typeof startSource>>;
let service: Running;
const accountKey = newAccountKey();

/** A PostgreSQL server that takes only encrypted connections from the network. */
async function startSource() {
  const dataFolder = newDataFolder();
  const engine = await startEmbedded({
    dataFolder,
    masterKey: randomBytes(32),
    connections: 10,
    more: { fsync: 'off' },
    say: () => {},
    onEvent: () => {},
  });
  const cluster = clusterFolderOf(dataFolder);
  const { uid, gid } = statSync(cluster);
  makeCertificates(certificates);
  for (const file of ['unknown', 'trusted', 'misnamed'])
    for (const ending of ['key', 'pem']) {
      const copy = path.join(cluster, `${file}.${ending}`);
      writeFileSync(copy, readFileSync(path.join(certificates, `${file}.${ending}`)), { mode: 0o600 });
      chownSync(copy, uid, gid);
    }
  await asAdmin((admin) => admin.query(sql`create database shop`), engine.address);
  await asAdmin((admin) => admin.query(sql`create table teas as select n from generate_series(1, 1000) n`), {
    ...engine.address,
    database: 'shop',
  });
  const hba = path.join(cluster, 'pg_hba.conf');
  writeFileSync(hba, `hostnossl shop all all reject\n${readFileSync(hba, 'utf8')}`);
  const present = async (certificate: Certificate) => {
    await asAdmin(async (admin) => {
      for (const [setting, value] of [
        ['ssl_cert_file', `${certificate}.pem`],
        ['ssl_key_file', `${certificate}.key`],
        ['ssl', 'on'],
      ] as const)
        await admin.query(sql`alter system set ${sql.id(setting)} = ${sql.id(value)}`);
      await admin.query(sql`select pg_reload_conf()`);
    }, engine.address);
    const look = (admin: Database) =>
      admin.query<{ file: string; ssl: string }>(
        sql`select current_setting('ssl_cert_file') as file, current_setting('ssl') as ssl`,
      );
    await until('a new connection sees it', async () => {
      const [row] = await asAdmin(look, engine.address);
      return row?.file === `${certificate}.pem` && row.ssl === 'on';
    });
  };
  const { port, user, password } = engine.address;
  const url = (mode: string) =>
    `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/shop?sslmode=${mode}`;
  return { url, present, stop: engine.stop };
}

beforeAll(async () => {
  if (!hasOpenssl) return;
  certificates = newDataFolder();
  source = await startSource();
  service = await launch({
    ROWHOUSE_DATA: await usedDataFolder(),
    ROWHOUSE_ACCOUNT_KEY: accountKey,
    ROWHOUSE_IMPORT_PRIVATE_HOSTS: 'true',
    NODE_EXTRA_CA_CERTS: path.join(certificates, 'ca.pem'),
  });
});

afterAll(() => source?.stop());

async function copy(mode: string) {
  const { status, body } = await service.call('POST', '/projects/import', {
    body: { name: `Copy ${mode}`, from: source.url(mode) },
  });
  expect([status, body.error]).toEqual([202, undefined]);
  return until(
    'the job has ended',
    async () => {
      const { job } = (await service.call('GET', `${api}/jobs/${body.job.id}`)).body;
      return job.status !== 'running' && job;
    },
    60_000,
  );
}

it.skipIf(!hasOpenssl)(
  'a server is copied over TLS: with any certificate, or only with one that fits',
  async () => {
    const done = { error: null, status: 'done', result: { tables: 1, rows: 1_000 } };
    const failed = (message: string) => ({
      status: 'failed',
      result: null,
      error: { code: 'import_source_failed', message: expect.stringContaining(message) },
    });
    await source.present('unknown');
    // So the others are encrypted.
    expect(await copy('disable')).toMatchObject(failed('pg_hba.conf rejects connection'));
    expect(await copy('require')).toMatchObject(done);
    expect(await copy('verify-full')).toMatchObject(failed('SELF_SIGNED'));
    await source.present('trusted');
    expect(await copy('verify-full')).toMatchObject(done);
    await source.present('misnamed');
    expect(await copy('verify-full')).toMatchObject(failed('ERR_TLS_CERT_ALTNAME_INVALID'));
    expect(await copy('require')).toMatchObject(done);
    expect(await service.stop()).toBe(0);
  },
);
