import { BlockList, createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isElsewhere, isPublic } from '../../src/lib/networks.ts';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { readRemote } from '../../src/transfer/receive/remote.ts';
import { run } from '../support/exports.ts';
import { address, api, asAdmin, jobEnd, until, useTestService } from '../support/helpers.ts';
import { isGone } from '../support/importing.ts';

const rowhouse = useTestService({
  imports: { allowPrivateHosts: true },
});
const database = `rowhouse_test_supabase_${process.pid}`;
const roles = ['supabase_admin', 'supabase_auth_admin', 'supabase_storage_admin'].map(
  (name) => `${name}_${process.pid}`,
);
const url = (of = database) => {
  const { host, port, user, password } = address();
  return `postgres://${encodeURIComponent(user)}:${encodeURIComponent(password)}@${host}:${port}/${of}?sslmode=disable`;
};

/** As a database of Supabase looks, as far as it matters. */
beforeAll(async () => {
  await asAdmin(async (admin) => {
    for (const role of roles) await admin.query(sql`create role ${sql.id(role)}`);
    await admin.query(sql`create database ${sql.id(database)}`);
  });
  const [owner, auth, storage] = roles.map((role) => sql.id(role));
  await asAdmin(
    async (admin) => {
      for (const statement of [
        sql`create schema auth authorization ${auth}`,
        sql`create schema storage authorization ${storage}`,
        sql`create schema realtime authorization ${owner}`,
        sql`create schema extensions`,
        sql`create extension pgcrypto schema extensions`,
        sql`create table auth.users (instance_id uuid, id uuid primary key, aud text, role text, email text, encrypted_password text,
          email_confirmed_at timestamptz, last_sign_in_at timestamptz, raw_app_meta_data jsonb, raw_user_meta_data jsonb,
          created_at timestamptz, updated_at timestamptz, phone text, banned_until timestamptz, deleted_at timestamptz)`,
        sql`alter table auth.users owner to ${auth}`,
        sql`create table auth.identities (id uuid primary key, user_id uuid references auth.users)`,
        sql`create function auth.uid() returns uuid language sql stable as 'select null::uuid'`,
        sql`insert into auth.users (id, role, email, encrypted_password, raw_user_meta_data, email_confirmed_at, created_at) values
          ('00000000-0000-4000-8000-000000000001', 'authenticated', 'ada@example.com',
           extensions.crypt('correct horse battery', extensions.gen_salt('bf', 10)), '{"name": "Ada"}', now(), '2026-01-02T03:04:05Z'),
          ('00000000-0000-4000-8000-000000000003', 'authenticated', 'eve@example.com',
           regexp_replace(extensions.crypt('correct horse battery', extensions.gen_salt('bf', 4)), '04', '31'), null, null, now()),
          ('00000000-0000-4000-8000-000000000004', 'authenticated', 'bob@example.com', null, null, null, now()),
          ('00000000-0000-4000-8000-000000000005', 'authenticated', 'mallory@example.com', null, null, null, now()),
          ('00000000-0000-4000-8000-000000000002', 'authenticated', null, null, null, null, now())`,
        sql`update auth.users set banned_until = case email when 'bob@example.com' then now() - interval '1 day'
          when 'mallory@example.com' then now() + interval '1 day' end`,
        sql`create table storage.objects (id uuid)`,
        sql`create table public.notes (id bigint generated always as identity primary key, code text default extensions.gen_salt('bf'),
          owner uuid references auth.users, body text)`,
        sql`insert into public.notes (owner, body) values ('00000000-0000-4000-8000-000000000001', 'hello')`,
        sql`alter table public.notes enable row level security`,
        sql`create policy own on public.notes to authenticated using (auth.uid() = owner)`,
        sql`grant all on public.notes to anon, authenticated, service_role`,
        sql`create function public.greet() returns trigger language plpgsql as $$ begin return new; end $$`,
        sql`create trigger on_auth_user_created after insert on auth.users for each row execute function public.greet()`,
      ])
        await admin.query(statement);
    },
    { ...address(), database },
  );
});

afterAll(async () => {
  await asAdmin(async (admin) => {
    await admin.query(sql`drop database if exists ${sql.id(database)} with (force)`);
    for (const role of roles) await admin.query(sql`drop role if exists ${sql.id(role)}`);
  });
});

async function copyFrom(from: string) {
  const { status, body } = await rowhouse.call('POST', '/projects/import', { body: { name: 'Copy', from } });
  expect([status, body.error]).toEqual([202, undefined]);
  const project = { slug: body.project.slug, id: body.project.id, key: body.api_key };
  return { project, job: await jobEnd(rowhouse, body.job.id) };
}

describe('a server', () => {
  it('that looks like one of Supabase is copied, with its users', async () => {
    const { project, job } = await copyFrom(url());
    expect(job.error).toBeNull();
    expect(job.result).toMatchObject({ tables: 1, rows: 1, users: 4 });
    const skipped = Object.fromEntries(
      job.result.skipped.map(({ entry, reason }: { entry: string; reason: string }) => [
        entry.replace(/ \(\d+ entries\)$/, ''),
        reason,
      ]),
    );
    expect(skipped).toEqual({
      'schema auth': "Supabase's own schema. Only users are taken from it.",
      'schema storage': "Supabase's own schema.",
      'schema realtime': "Supabase's own schema.",
      'TRIGGER auth.users on_auth_user_created': 'Projects cannot have a trigger on a table of schema auth.',
      'users: no email address': 'The user cannot be stored here.',
      'users without a password': expect.stringContaining('/auth/recover'),
      passwords: expect.stringContaining('too high a cost'),
    });
    const { rows } = await run(
      rowhouse,
      project,
      'select email, data, email_verified_at is not null as verified, created_at, body, length(code) > 20 as salted from notes join auth.users on owner = users.id',
    );
    expect(rows).toEqual([
      {
        email: 'ada@example.com',
        data: { name: 'Ada' },
        verified: true,
        created_at: '2026-01-02T03:04:05Z',
        body: 'hello',
        salted: true,
      },
    ]);
    const banned = await run(rowhouse, project, 'select email from auth.users where banned_at is not null');
    expect(banned.rows).toEqual([{ email: 'mallory@example.com' }]);
    const signIn = async (email: string, password: string) =>
      (
        await rowhouse.call('POST', `/projects/${project.slug}/auth/signin`, {
          key: project.key,
          body: { email, password },
        })
      ).status;
    const hashOf = () =>
      asAdmin(
        async (admin) =>
          (await admin.query<{ hash: string }>(sql`select hash from auth.passwords`)).map(({ hash }) => hash),
        { ...address(), database: databaseOf(project.id) },
      );
    expect(await hashOf()).toEqual([expect.stringMatching(/^\$2a\$10\$/)]);
    expect(await signIn('ada@example.com', 'wrong horse battery')).toBe(401);
    expect(await signIn('eve@example.com', 'correct horse battery')).toBe(401);
    expect(await signIn('ada@example.com', 'correct horse battery')).toBe(200);
    // The sign-in has replaced the hash by one of our own.
    expect(await hashOf()).toEqual([expect.stringMatching(/^\$pbkdf2-sha256\$/)]);
    expect(await signIn('ada@example.com', 'correct horse battery')).toBe(200);
    const policies = await run(rowhouse, project, 'select policyname, roles::text from pg_policies');
    expect(policies.rows).toEqual([{ policyname: 'own', roles: '{authenticated}' }]);
  });

  it('that refuses, does not exist or is not there leaves nothing, and no secret in the log', async () => {
    const { host, port, user } = address();
    for (const [from, message] of [
      [url('rowhouse_test_nowhere'), 'does not exist'],
      [`postgres://${user}:secret-word@${host}:${port}/${database}?sslmode=disable`, 'authentication failed'],
      [`postgres://${user}:secret-word@${host}:1/${database}?sslmode=disable`, ''],
      [`postgres://${user}:secret-word@${host}:${port}/${database}`, ''],
      [`postgres://${user}:secret-word@nowhere.invalid/${database}`, 'cannot be found'],
    ] as const) {
      const { project, job } = await copyFrom(from);
      expect([from, job.status, job.error.code]).toEqual([from, 'failed', 'import_source_failed']);
      expect(job.error.message).toContain(message);
      await isGone(rowhouse, project);
      const said = JSON.stringify(job) + rowhouse.log.join('');
      expect(said).not.toContain('secret-word');
      expect(said).not.toContain(address().password);
    }
  });

  it('that says nothing, or nonsense, can be called off', async () => {
    const sockets: Socket[] = [];
    const silent: Server = createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      socket.resume();
    });
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
    const { port } = silent.address() as { port: number };
    try {
      const from = `postgres://u:p@127.0.0.1:${port}/d?sslmode=disable`;
      const { body } = await rowhouse.call('POST', '/projects/import', { body: { name: 'Silent', from } });
      await until('it is connected', async () => sockets.length === 1);
      await rowhouse.call('DELETE', `${api}/jobs/${body.job.id}`);
      expect((await jobEnd(rowhouse, body.job.id)).status).toBe('cancelled');
      await until('it is disconnected', async () => sockets[0]?.closed === true);
      const talking = copyFrom(from);
      await until('it is connected again', async () => sockets.length === 2);
      sockets[1]?.end(Buffer.alloc(100_000, 'E\xff\xff\xff\xff', 'latin1'));
      expect((await talking).job.error.code).toBe('import_source_failed');
    } finally {
      for (const socket of sockets) socket.destroy();
      silent.close();
    }
  });
});

describe('an address', () => {
  it.each([
    '127.0.0.1',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '192.0.2.1',
    '198.18.0.1',
    '224.0.0.1',
    '255.255.255.255',
    '240.0.0.1',
  ])('%s is not public', (ip) => expect(isPublic(ip, 'ipv4')).toBe(false));
  it.each([
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:10.0.0.1',
    'fe80::1',
    'fc00::1',
    'fd12::1',
    'ff02::1',
    '64:ff9b::7f00:1',
    '2002:7f00:1::',
    '2001::1',
    '2001:db8::1',
    '::127.0.0.1',
  ])('%s is not public', (ip) => expect(isPublic(ip, 'ipv6')).toBe(false));
  it.each([
    ['8.8.8.8', 'ipv4'],
    ['172.32.0.1', 'ipv4'],
    ['2606:4700::1111', 'ipv6'],
    ['2a00:1450::1', 'ipv6'],
  ] as const)('%s is public', (ip, family) => expect(isPublic(ip, family)).toBe(true));

  it('of this machine is not elsewhere, even if it is public', () => {
    const own = new BlockList();
    own.addAddress('8.8.8.8', 'ipv4');
    own.addAddress('2606:4700::1111', 'ipv6');
    expect(isElsewhere('8.8.8.8', 'ipv4', own)).toBe(false);
    expect(isElsewhere('2606:4700:0:0::1111', 'ipv6', own)).toBe(false);
    expect(isElsewhere('8.8.4.4', 'ipv4', own)).toBe(true);
    expect(isElsewhere('10.0.0.1', 'ipv4', own)).toBe(false);
    expect(isElsewhere('8.8.4.4', 'ipv4')).toBe(true);
  });

  it('is read with its parts decoded', () => {
    expect(readRemote('postgresql://a%40b:p%2Fw@db.example.com/my%2Ddb?sslmode=verify-full').address).toEqual(
      {
        host: 'db.example.com',
        port: 5432,
        user: 'a@b',
        password: 'p/w',
        database: 'my-db',
        tls: { rejectUnauthorized: true, servername: 'db.example.com' },
      },
    );
  });
});
