import { existsSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { writeArchive } from '../support/archives.ts';
import { download, type Project, run } from '../support/exports.ts';
import { api, asAdmin, jobEnd, until, useTestService } from '../support/helpers.ts';
import { importDump, isGone, upload } from '../support/importing.ts';

const folder = path.join(tmpdir(), `rowhouse-test-imports-${process.pid}`);
const rowhouse = useTestService({
  imports: {
    folder,
    allowPrivateHosts: false,
    limits: { statementMs: 3_000, inAll: { all: 2 }, running: { all: 1, waiting: 1 } },
  },
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The service, and a project that has nothing to do with it, are as before. */
async function allIsWell(): Promise<void> {
  const neighbour = await rowhouse.project('Neighbour');
  expect((await run(rowhouse, neighbour, 'select 1 as one')).rows).toEqual([{ one: 1 }]);
  expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([]);
}

/** Fails, and leaves nothing. */
async function fails(
  dump: Buffer | string,
  query?: string,
): Promise<{ code: string; message: string; hint?: string }> {
  const { project, job } = await importDump(rowhouse, dump, query);
  expect([job.status, job.result]).toEqual(['failed', null]);
  await isGone(rowhouse, project);
  await allIsWell();
  return job.error;
}

describe('a dump that wants more than it may', () => {
  const marker = path.join(tmpdir(), `rowhouse-test-marker-${process.pid}`);
  const attempts = [
    'set session authorization postgres',
    'set role postgres',
    'alter system set log_statement = $$all$$',
    `copy keep from program 'touch ${marker}'`,
    `copy keep to program 'touch ${marker}'`,
    `copy keep to '${marker}'`,
    "create function f() returns int language c as 'libc', 'system'",
    'create role rowhouse_test_evil superuser',
    'alter role current_user superuser',
    'alter role current_user bypassrls',
    'create event trigger evil on ddl_command_end execute function pg_catalog.now()',
    "select pg_catalog.pg_read_file('/etc/passwd')",
    'create extension dblink',
    'create extension file_fdw',
    'create table auth.mine (id int)',
    'create table rowhouse.mine (id int)',
    'create function rowhouse.check_size() returns int language sql as $$ select 1 $$',
    'select * from auth.passwords',
    'alter database current_database owner to current_user',
    'create database rowhouse_test_evil',
    'drop event trigger rowhouse_extensions',
    'create subscription s connection $$dbname=postgres$$ publication p',
    'grant pg_read_server_files to current_user',
    'select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where usename = $$postgres$$',
    "load 'auto_explain'",
  ];

  it('gets each statement refused, and the rest of it imported', async () => {
    const script = `create table keep (id int);\n\\! touch ${marker}\n\\copy keep from /etc/passwd\n\\o ${marker}\n\\i /etc/passwd\n${attempts.join(';\n')};\ninsert into keep values (1);\ncopy keep from stdin;\n2\n\\.\nselect 1 \\g |touch ${marker}\n;\n`;
    const { project, job } = await importDump(rowhouse, script);
    expect([job.status, job.error]).toEqual(['done_with_losses', null]);
    expect((await run(rowhouse, project, 'select id from keep order by 1')).rows).toEqual([
      { id: 1 },
      { id: 2 },
    ]);
    expect(existsSync(marker)).toBe(false);
    const reported = JSON.stringify(job.result.skipped);
    for (const attempt of attempts.slice(2)) {
      // It may see no session of ours, so there is nothing to refuse; and owners are left out without a word.
      if (/pg_terminate_backend|owner to/.test(attempt)) continue;
      expect(reported).toContain(JSON.stringify(attempt.slice(0, 40)).slice(1, -1));
    }
    expect(reported.match(/A command for psql/g)).toHaveLength(5);
    await asAdmin(async (admin) => {
      const found = await admin.query(sql`
        select rolname from pg_roles where rolname = 'rowhouse_test_evil'
        union all select datname from pg_database where datname = 'rowhouse_test_evil'
        union all select rolname from pg_roles
          where rolname = ${`p_${project.id}`} and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb)`);
      expect(found).toEqual([]);
    });
    await allIsWell();
  });

  it('does not reach the passwords of users under a false heading', async () => {
    const copy = 'COPY auth.passwords (user_id, hash) FROM stdin;\n';
    const data = '7f0e3f5c-93a1-4d6c-a3b7-2f4dd1a3f7aa\tx\n';
    const error = await fails(
      writeArchive([{ kind: 'TABLE DATA', name: 'teas', schema: 'public', copy, data }]),
    );
    expect(error).toMatchObject({
      code: 'invalid_dump',
      message: expect.stringContaining('permission denied'),
    });
  });

  it('cannot slip a second statement into one', async () => {
    const text = 'select 1 as "a;b"; create table second ();';
    const { job } = await importDump(
      rowhouse,
      writeArchive([{ kind: 'TABLE', name: 'x', schema: 'public', text }]),
    );
    expect(job.result).toMatchObject({ tables: 1, skipped: [] });
    const hidden = 'create function f() returns int begin atomic select 1; end';
    const again = await importDump(rowhouse, `${hidden}; create table third ();`);
    expect(again.job.result).toMatchObject({ tables: 1, skipped: [] });
  });

  it('has roles of other projects taken out of its grants', async () => {
    const other = await rowhouse.project('Other');
    const script = `create table mine (id int);\ngrant select on mine to "p_${other.id}";\ngrant select on mine to postgres;\ngrant select on mine to anon;\n`;
    const { project, job } = await importDump(rowhouse, script);
    expect(job.result.skipped.map(({ reason }: { reason: string }) => reason)).toEqual([
      `The role "p_${other.id}" does not exist here.`,
      'The role "postgres" does not exist here.',
    ]);
    const { rows } = await run(
      rowhouse,
      project,
      "select relacl::text as acl from pg_class where relname = 'mine'",
    );
    expect(rows[0].acl).toContain('anon=r');
    expect(rows[0].acl).not.toContain(other.id);
  });

  it('has hashes with too many rounds, and emails that are none, left out', async () => {
    const ids = [1, 2, 3, 4].map((n) => `00000000-0000-4000-8000-00000000000${n}`);
    const hash = (rounds: number) => `$pbkdf2-sha256$i=${rounds}$${'A'.repeat(22)}$${'A'.repeat(43)}`;
    const script = `COPY auth.passwords (user_id, hash) FROM stdin;
${ids[0]}\t${hash(1000)}
${ids[1]}\t${hash(99_999_999)}
00000000-0000-4000-8000-000000000009\t${hash(1000)}
\\.
COPY auth.users (id, email, email_key, role, data) FROM stdin;
${ids[0]}\tAda@Example.com\tsomething else\tadmin\t{"a": 1}
${ids[1]}\tbob@example.com\tbob@example.com\tspace role\t{}
${ids[2]}\tno address\tx\tx\t{}
${ids[3]}\tADA@example.com\tx\tx\t{}
\\.
`;
    const { project, job } = await importDump(rowhouse, script);
    expect(job.result).toMatchObject({ users: 2, skipped_count: 3 });
    const { rows } = await run(
      rowhouse,
      project,
      'select email, email_key, role, data from auth.users order by email',
    );
    expect(rows).toEqual([
      { email: 'Ada@Example.com', email_key: 'ada@example.com', role: 'admin', data: { a: 1 } },
      { email: 'bob@example.com', email_key: 'bob@example.com', role: 'authenticated', data: {} },
    ]);
    const [stored] = await asAdmin(
      (admin) => admin.query<{ count: number }>(sql`select count(*)::int as count from auth.passwords`),
      { ...rowhouse.service.deps.server.address, database: `p_${project.id}` },
    );
    expect(stored?.count).toBe(1);
  });

  it('does not open tables to users that its grants keep closed', async () => {
    const { project } = await importDump(rowhouse, 'create table public.closed (id int);\n');
    await run(rowhouse, project, 'create table later (id int)');
    const { rows } = await run(
      rowhouse,
      project,
      "select relname, has_table_privilege('authenticated', oid, 'select') as open from pg_class where relname in ('closed', 'later') order by 1",
    );
    expect(rows).toEqual([
      { relname: 'closed', open: false },
      { relname: 'later', open: true },
    ]);
  });

  it('fails rather than to lose a policy that restricts', async () => {
    const script =
      'create table t (id int);\nalter table t enable row level security;\ncreate policy p on t as restrictive to authenticated using (missing(id));\n';
    expect(await fails(script)).toMatchObject({
      code: 'invalid_dump',
      message: expect.stringContaining('missing'),
    });
  });
});

describe('a dump that wants too much', () => {
  it('of time: a statement that does not end', async () => {
    const endless = 'do $$ begin loop end loop; end $$;\n';
    const asleep = `create function slow() returns int language sql as 'select 1 from pg_catalog.pg_sleep(600)';\ncreate table t (a int, b int default slow());\ncopy t (a) from stdin;\n1\n\\.\n`;
    const stubborn =
      'do $$ begin loop begin perform pg_catalog.pg_sleep(600); exception when others then null; when query_canceled then null; end; end loop; end $$;\n';
    for (const script of [endless, asleep, stubborn])
      expect(await fails(script)).toMatchObject({
        code: 'query_timeout',
        message: expect.stringContaining('3 s'),
      });
  });

  it('of room: limit_mb holds while it runs', async () => {
    const rows = `${'x'.repeat(900)}\n`.repeat(20_000);
    const copied = writeArchive([
      { kind: 'TABLE', name: 't', schema: 'public', text: 'create table public.t (a text);' },
      { kind: 'TABLE DATA', name: 't', schema: 'public', copy: 'copy public.t from stdin;', data: rows },
    ]);
    const made = 'create table t as select generate_series(1, 100000000), repeat(md5(random()::text), 20);\n';
    const objects = `do $$ declare noise bytea; begin for n in 1..100000 loop
      select decode(string_agg(md5(random()::text), ''), 'hex') into noise from generate_series(1, 2000);
      perform pg_catalog.lo_from_bytea(0, noise); end loop; end $$;\n`;
    for (const dump of [copied, made, objects]) {
      const error = await fails(dump, 'name=Small&limit_mb=5');
      expect(error).toMatchObject({ code: 'project_full', details: { limit_mb: 5 } });
      expect(error.hint).toBe('Import it again with a larger limit_mb.');
    }
    const { job } = await importDump(rowhouse, copied, 'name=Large&limit_mb=100');
    expect(job.result).toMatchObject({ tables: 1, rows: 20_000 });
  });

  it('of memory and time to unpack: a bomb', async () => {
    const bomb = writeArchive([
      { kind: 'TABLE', name: 't', schema: 'public', text: 'create table public.t (a text);' },
      {
        kind: 'TABLE DATA',
        name: 't',
        schema: 'public',
        copy: 'copy public.t from stdin;',
        data: Buffer.alloc(120_000_000, 'a'),
      },
    ]);
    expect(bomb.length).toBeLessThan(1_000_000);
    expect(await fails(bomb, 'name=Bomb&limit_mb=1')).toMatchObject({
      code: 'invalid_dump',
      message: expect.stringContaining('unpacks to more than 80 MB'),
    });
  });

  it('of disk: a body that is larger than its limit allows', async () => {
    const { status, body } = await upload(
      rowhouse,
      Buffer.alloc(70 * 1024 * 1024, '-'),
      'name=Big&limit_mb=1',
    );
    expect([status, body.error.code, body.error.message]).toEqual([
      413,
      'payload_too_large',
      'The dump is larger than 68 MB, four times limit_mb.',
    ]);
    await allIsWell();
  });

  it('of turns: more imports than are let in', async () => {
    const slow = 'select pg_catalog.pg_sleep(2);\n';
    const first = await upload(rowhouse, slow);
    const second = await upload(rowhouse, slow);
    const third = await upload(rowhouse, slow);
    expect([first.status, second.status, third.status, third.body.error.code]).toEqual([
      202,
      202,
      429,
      'overloaded',
    ]);
    // The second waits for its turn, and can be called off meanwhile.
    expect((await rowhouse.call('DELETE', `${api}/jobs/${second.body.job.id}`)).status).toBe(202);
    expect((await jobEnd(rowhouse, second.body.job.id)).status).toBe('cancelled');
    expect((await jobEnd(rowhouse, first.body.job.id)).status).toBe('done');
    await allIsWell();
  });

  it('cannot be used before it is done, and a cancelled one is gone', async () => {
    const { body } = await upload(rowhouse, 'create table t ();\nselect pg_catalog.pg_sleep(60);\n');
    const project: Project = { slug: body.project.slug, id: body.project.id, key: body.api_key };
    const early = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
      key: project.key,
      body: { query: 'select 1' },
    });
    expect([early.status, early.body.error.code]).toEqual([409, 'project_not_ready']);
    await rowhouse.call('DELETE', `${api}/jobs/${body.job.id}`);
    expect((await jobEnd(rowhouse, body.job.id)).status).toBe('cancelled');
    await until(
      'it is gone',
      async () => (await rowhouse.call('GET', `/projects/${project.slug}`)).status === 404,
    );
    await isGone(rowhouse, project);
    await allIsWell();
  });
});

describe('a damaged dump', () => {
  it.each(['custom', 'sql'])('as %s leaves nothing, wherever it was cut', async (format) => {
    const source = await rowhouse.project('Source');
    await run(rowhouse, source, 'create table t as select n, md5(n::text) from generate_series(1, 2000) n');
    const { bytes } = await download(rowhouse, source, format);
    for (const part of [0.1, 0.5, 0.9, 0.99]) {
      const error = await fails(bytes.subarray(0, Math.floor(bytes.length * part)));
      expect([error.code, error.message]).toEqual([
        'invalid_dump',
        expect.stringMatching(/^The dump cannot be imported: the dump ends too early[.:]/),
      ]);
    }
  });

  it('with a flipped bit in its rows leaves nothing', async () => {
    const entries = [
      { kind: 'TABLE', name: 't', schema: 'public', text: 'create table public.t (a text);' },
      {
        kind: 'TABLE DATA',
        name: 't',
        schema: 'public',
        copy: 'copy public.t from stdin;',
        data: 'abc\n'.repeat(9_000),
      },
    ];
    const dump = writeArchive(entries);
    dump[dump.length - 8] = (dump[dump.length - 8] as number) ^ 4;
    expect((await fails(dump)).message).toContain('the compressed data is damaged');
  });

  it('that is none is refused', async () => {
    for (const dump of [Buffer.from('PGDMP'), Buffer.from('hello')])
      expect((await fails(dump)).code).toBe('invalid_dump');
    for (const dump of ['', Buffer.from([0, 1, 2, 3]), Buffer.from('PGDMP\x02\x00\x00\x04\x08\x01')]) {
      const { status, body } = await upload(rowhouse, dump);
      expect([status, body.error?.code]).toEqual([422, 'invalid_dump']);
    }
  });
});

describe('a request to import', () => {
  it('needs an account key, a name and a known type', async () => {
    const { key } = await rowhouse.project();
    const send = (query: string, headers: Record<string, string>) =>
      rowhouse.call('POST', `/projects/import${query}`, {
        raw: 'select 1;',
        headers,
        key: headers.key ?? rowhouse.accountKey,
      });
    const dump = { 'content-type': 'application/sql' };
    expect((await send('?name=x', { ...dump, key })).status).toBe(403);
    expect((await send('', dump)).body.error.message).toContain('name: is required');
    expect((await send('?name=x&limit_mb=99999999', dump)).body.error.message).toContain('limit_mb');
    expect((await send('?name=x&nonsense=1', dump)).status).toBe(400);
    expect((await send('?name=x', { 'content-type': 'text/csv' })).status).toBe(415);
    expect((await send('?name=x', { ...dump, 'content-encoding': 'gzip' })).status).toBe(415);
    await allIsWell();
  });

  it.each([
    ['postgres://u:secret-word@127.0.0.1/d', 'private network'],
    ['postgres://u:secret-word@localhost/d', 'private network'],
    ['postgres://u:secret-word@[::1]/d', 'private network'],
    ['postgres://u:secret-word@[::ffff:127.0.0.1]/d', 'private network'],
    ['postgres://u:secret-word@169.254.169.254/d', 'private network'],
    ['postgres://u:secret-word@0x7f000001/d', 'private network'],
  ])('to copy from %s fails, and says no secret', { timeout: 30_000 }, async (from, message) => {
    const { status, body } = await rowhouse.call('POST', '/projects/import', {
      body: { name: 'Copy', from },
    });
    expect(status).toBe(202);
    const job = await jobEnd(rowhouse, body.job.id);
    expect(job.error).toMatchObject({
      code: 'import_source_failed',
      message: expect.stringContaining(message),
    });
    expect(JSON.stringify(job) + rowhouse.log.join('')).not.toContain('secret-word');
  });

  it.each([
    ['http://u:p@h/d', 'must begin with postgres://'],
    ['postgres://u:p@%2Ftmp/d', 'host'],
    ['postgres:///d?host=/tmp', ''],
    ['postgres://u:p@h/d?host=/tmp', 'unknown parameter "host"'],
    ['postgres://u:p@h/d?service=x', 'unknown parameter "service"'],
    ['postgres://u:p@h/', 'must name a user and a database'],
    ['postgres://u:p@h/a%20host=x', 'database name'],
    ['nonsense', 'is not an address'],
  ])('to copy from %s is refused', async (from, message) => {
    const { status, body } = await rowhouse.call('POST', '/projects/import', {
      body: { name: 'Copy', from },
    });
    expect([status, body.error.code]).toEqual([400, 'invalid_request']);
    expect(body.error.message).toContain(message);
  });
});
