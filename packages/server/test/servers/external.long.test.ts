import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Address } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { checkExternal, findOpenGuards, parseDatabaseUrl } from '../../src/servers/external.ts';
import { address, asAdmin, newControlName, openTestService, removeTestService } from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder } from '../support/process.ts';

const suffix = randomBytes(4).toString('hex');
const plain = `rh_plain_${suffix}`;
const maker = `rh_maker_${suffix}`;
const password = randomBytes(12).toString('hex');
const asRole = (user: string): Address => ({ ...address(), user, password });
const urlOf = ({ user, password: secret, host, port, database }: Address) =>
  `postgres://${user}:${encodeURIComponent(secret)}@${host}:${port}/${database}`;

beforeAll(() =>
  asAdmin(async (admin) => {
    await admin.query(sql`create role ${sql.id(plain)} login password ${sql.literal(password)}`);
    await admin.query(
      sql`create role ${sql.id(maker)} login createdb createrole password ${sql.literal(password)}`,
    );
    for (const role of [plain, maker])
      await admin.query(sql`grant connect on database postgres to ${sql.id(role)}`);
  }),
);
afterAll(() =>
  asAdmin(async (admin) => {
    const templates = await admin.query<{ name: string }>(sql`
      select datname as name from pg_database where datdba = ${maker}::regrole`);
    for (const { name } of templates) {
      await admin.query(sql`alter database ${sql.id(name)} is_template false`);
      await admin.query(sql`drop database ${sql.id(name)}`);
    }
    for (const role of [plain, maker]) {
      await admin.query(sql`drop owned by ${sql.id(role)} cascade`);
      await admin.query(sql`drop role ${sql.id(role)}`);
    }
  }),
);

describe('a service with a role that is not a superuser', () => {
  it('refuses to start without CREATEDB and CREATEROLE, and shows the statement to run', async () => {
    await expect(checkExternal(asRole(plain))).rejects.toMatchObject({
      message: expect.stringContaining(plain),
      hint: expect.stringContaining('createdb createrole'),
    });
  });

  it('serves projects with these rights, and reports what it cannot guard', async () => {
    await checkExternal(asRole(maker));
    const controlDatabase = newControlName();
    const rowhouse = await openTestService({ at: asRole(maker), controlDatabase, spares: 1 });
    const { server } = rowhouse.service.deps;
    const missing = server.findings.map((finding) => finding.missing);
    expect(missing).toEqual(
      expect.arrayContaining([
        'guards inside project databases',
        'a limit on temporary files',
        'quiet logs for project roles',
        'supervision of direct connections',
      ]),
    );
    for (const { remedy } of server.findings) expect(remedy.length).toBeGreaterThan(10);

    const one = await rowhouse.project('First');
    const two = await rowhouse.project('Second');
    const { body } = await rowhouse.call('GET', `/projects/${one.slug}/connection`);
    const direct = { ...body.connection, tls: false };
    await asAdmin(async (database) => {
      await database.query(sql`create table t as select 1 as one`);
      expect(await database.query(sql`select * from t`)).toEqual([{ one: 1 }]);
    }, direct);
    await expect(
      asAdmin((database) => database.query(sql`select 1`), { ...direct, database: `p_${two.id}` }),
    ).rejects.toThrow();
    expect((await rowhouse.call('DELETE', `/projects/${one.slug}`)).status).toBe(200);
    expect((await rowhouse.call('POST', `/projects/${one.slug}/restore`)).status).toBe(200);

    const branch = await rowhouse.call('POST', `/projects/${one.slug}/branches`, {
      body: { name: 'Branch' },
    });
    expect([branch.status, branch.body.error]).toEqual([201, undefined]);
    const { slug } = branch.body.project;
    const onBranch = (query: string) =>
      rowhouse.call('POST', `/projects/${slug}/query`, { key: branch.body.api_key, body: { query } });
    expect((await onBranch('update t set one = 2')).body).toMatchObject({ affected: 1 });
    for (const action of ['reset', 'promote']) {
      const { status, body: answer } = await rowhouse.call('POST', `/projects/${slug}/${action}`);
      expect([action, status, answer.error]).toEqual([action, 200, undefined]);
    }
    const query = { query: 'select * from t' };
    const { body: promoted } = await rowhouse.call('POST', `/projects/${one.slug}/query`, { body: query });
    expect(promoted.rows).toEqual([{ one: 1 }]);
    await rowhouse.stop();
    await removeTestService(controlDatabase, server.installation);
  });

  it('guards projects with the parameters that were granted to it', async () => {
    await asAdmin((admin) =>
      admin.query(
        sql`grant set on parameter temp_file_limit, log_min_messages, log_min_error_statement to ${sql.id(maker)}`,
      ),
    );
    const controlDatabase = newControlName();
    const rowhouse = await openTestService({ at: asRole(maker), controlDatabase, spares: 0 });
    const missing = rowhouse.service.deps.server.findings.map((finding) => finding.missing);
    expect(missing).not.toContain('a limit on temporary files');
    const { slug } = await rowhouse.project('Guarded');
    const { body } = await rowhouse.call('GET', `/projects/${slug}/connection`);
    await asAdmin(
      async (database) => {
        const [row] = await database.query(sql`select current_setting('temp_file_limit') as files`);
        expect(row).toEqual({ files: '1GB' });
      },
      { ...body.connection, tls: false },
    );
    await rowhouse.stop();
    await removeTestService(controlDatabase, rowhouse.service.deps.server.installation);
  });
});

it('with a superuser on a suitable server only databases of others stay open', async () => {
  const [findings, settings] = await asAdmin(async (admin) => [
    await findOpenGuards(admin, address()),
    await admin.query<{ fsync: string }>(sql`select current_setting('fsync') as fsync`),
  ]);
  const names = findings
    .map(({ missing }) => missing)
    .filter((missing) => !missing.startsWith('restricted access'));
  // The server that the tests start does not flush to disk.
  expect(names).toEqual(settings[0]?.fsync === 'off' ? ['durable writes'] : []);
});

describe('a service on an external server', () => {
  it('serves from ROWHOUSE_DATABASE_URL, and leaves that server running when it stops', async () => {
    const env = {
      ROWHOUSE_DATA: newDataFolder(),
      ROWHOUSE_DATABASE_URL: urlOf(address()),
      ROWHOUSE_CONTROL_DATABASE: newControlName(),
      ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    };
    const service = await launch(env);
    expect((await service.call('POST', '/projects', { body: { name: 'Elsewhere' } })).status).toBe(201);
    expect(await service.stop()).toBe(0);
    const installation = await asAdmin(
      async (control) => {
        const [row] = await control.query<{ value: string }>(
          sql`select value from settings where name = 'installation'`,
        );
        return row?.value ?? '';
      },
      { ...address(), database: env.ROWHOUSE_CONTROL_DATABASE },
    );
    await removeTestService(env.ROWHOUSE_CONTROL_DATABASE, installation);
  });

  it('reports at its start what is not guarded', async () => {
    const env = {
      ROWHOUSE_DATA: newDataFolder(),
      ROWHOUSE_DATABASE_URL: urlOf(asRole(maker)),
      ROWHOUSE_CONTROL_DATABASE: newControlName(),
      ROWHOUSE_SPARES: '0',
    };
    const service = await launch(env);
    expect(service.output()).toMatch(/warning {6}missing: guards inside project databases/);
    expect(service.output()).toContain('To fix it:');
    await service.stop();
    await removeTestService(env.ROWHOUSE_CONTROL_DATABASE, '');
  });

  it.each([
    ['nobody listens', () => urlOf({ ...address(), port: 1 }), /cannot be reached/],
    ['a wrong password', () => urlOf({ ...asRole(plain), password: 'wrong' }), /password/],
    ['too few rights', () => urlOf(asRole(plain)), /cannot create databases and roles/],
  ])('exits with 1 and one clear line: %s', async (_what, url, words) => {
    const service = await launch({ ROWHOUSE_DATA: newDataFolder(), ROWHOUSE_DATABASE_URL: url() });
    expect((await service.exited).code).toBe(1);
    expect(service.output()).toMatch(words);
    expect(service.output()).not.toContain('    at ');
  });
});

it('database addresses of all usual forms are understood', () => {
  expect(parseDatabaseUrl('postgres://u:p%40ss@db.example.com/app')).toMatchObject({
    host: 'db.example.com',
    port: 5432,
    user: 'u',
    password: 'p@ss',
    database: 'app',
    tls: false,
  });
  expect(parseDatabaseUrl('postgresql://u@[::1]:6000?sslmode=verify-full')).toMatchObject({
    host: '::1',
    port: 6000,
    database: 'postgres',
    tls: { rejectUnauthorized: true },
  });
  const { primary } = parseDatabaseUrl('postgres://u@h1:6000,h2/app');
  expect(primary?.hosts).toEqual([
    { host: 'h1', port: 6000 },
    { host: 'h2', port: 5432 },
  ]);
});
