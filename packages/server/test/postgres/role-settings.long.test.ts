// What a project sets for its role with ALTER ROLE has no effect on its requests: PostgreSQL reads every text as the parser
// does, values are written as documented, and no setting keeps requests from being answered.
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 2, connections: { budget: 20, share: 6 } });
const mb = 1024 * 1024;
type Project = { slug: string; id: string; key: string };
let neighbour: Project;
beforeAll(async () => {
  neighbour = await rowhouse.project('Neighbour');
});

const run = (project: Project, query: string, more: object = {}) =>
  rowhouse.call('POST', `/projects/${project.slug}/query`, { key: project.key, body: { query, ...more } });

/** What it has set holds for sessions that begin from now on. */
async function cutSessions({ id }: Project): Promise<void> {
  await asAdmin((admin) =>
    admin.query(
      sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${databaseOf(id)}`,
    ),
  );
}

async function storedMb({ id }: Project): Promise<number> {
  const [row] = await rowhouse.service.deps.control.query<{ empty: number }>(
    sql`select empty_bytes::float8 as empty from projects where id = ${id}`,
  );
  const [size] = await asAdmin((admin) =>
    admin.query<{ bytes: number }>(sql`select pg_database_size(${databaseOf(id)})::float8 as bytes`),
  );
  return ((size?.bytes ?? 0) - (row?.empty ?? 0)) / mb;
}

const values = `select e'\\u00e9' as text, 1.5::float8 / 3 as real, timestamptz '2026-01-02 03:04:05+02' as at,
  interval '1 day 2 hours' as span, '\\x00ff'::bytea as bytes, date '2026-01-02' as day, null = null as nothing,
  '{null,1}'::int[] as list, '<a/>'::xml::text as xml, 'a\\b' as backslash, to_char(1234.5, '9G999D9') as number`;
const written = {
  text: 'é',
  real: 0.5,
  at: '2026-01-02T01:04:05Z',
  span: 'P1DT2H',
  bytes: '\\x00ff',
  day: '2026-01-02',
  nothing: null,
  list: [null, 1],
  xml: '<a/>',
  backslash: 'a\\b',
  number: ' 1,234.5',
};

describe('settings that a project makes for its role', () => {
  it('do not change how string literals are read', async () => {
    const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Reader', limit_mb: 4 } });
    const project = { slug: body.project.slug, id: body.project.id, key: body.api_key };
    expect((await run(project, 'alter role current_user set standard_conforming_strings = off')).status).toBe(
      200,
    );
    await run(project, "alter role current_user set backslash_quote = 'on'");
    await cutSessions(project);
    // With these settings the string would end at the second quote, and what follows it would be called.
    const hidden =
      ' , count(lo_from_bytea(0, decode(repeat(md5(chr(97)), 60000), concat(chr(104), chr(101), chr(120))))) from generate_series(1, 40) --';
    await until('it is answered', async () => (await run(project, 'select 1 as one')).status === 200);
    for (let n = 0; n < 8; n++) {
      const { body: answer } = await run(project, `select 'x\\''${hidden}' as x`);
      expect(answer.rows, JSON.stringify(answer)).toEqual([{ x: `x\\'${hidden}` }]);
    }
    expect(await storedMb(project)).toBeLessThan(4);
  });

  it('do not change how values are read or written, even all at once', async () => {
    const project = await rowhouse.project('Settings');
    const expected = (await run(project, values)).body;
    expect(expected.rows, JSON.stringify(expected)).toEqual([written]);
    const settings = await asAdmin((admin) =>
      admin.query<{ name: string; type: string; choices: string[] | null; setting: string; max: string }>(sql`
        select name, vartype as type, enumvals as choices, setting, max_val as max from pg_settings
        order by name`),
    );
    const set: string[] = [];
    for (const { name, type, choices, setting, max } of settings) {
      const other = otherValue(type, choices, setting, max, name);
      if (other === null) continue;
      const { status } = await run(project, `alter role current_user set ${name} = ${other}`);
      if (status === 200) set.push(name);
    }
    expect(set.length).toBeGreaterThan(100);
    expect(set).toContain('standard_conforming_strings');
    await cutSessions(project);
    await until('it is answered', async () => (await run(project, 'select 1 as one')).status === 200);
    expect((await run(project, values)).body.rows).toEqual([written]);
    await expectAllWorks(project);
  });

  it.each([
    ['a role', "alter role current_user set role = 'authenticated'"],
    ['a role that is itself', 'alter role current_user set role = current_user'],
    ['a library', "alter role current_user set local_preload_libraries = 'nothing'"],
    [
      'a library that only a superuser may name',
      "alter role current_user set session_preload_libraries = 'nothing'",
    ],
    ['row security off', 'alter role current_user set row_security = off'],
    ['a deadline', "alter role current_user set statement_timeout = '1ms'"],
    ['a deadline for transactions', "alter role current_user set transaction_timeout = '1ms'"],
    ['a deadline for idle sessions', "alter role current_user set idle_session_timeout = '1ms'"],
    ['an encoding', "alter role current_user set client_encoding = 'SJIS'"],
    ['a search path', "alter role current_user set search_path = 'pg_temp, nowhere'"],
    ['no memory', "alter role current_user set work_mem = '64kB'"],
    ['a table space', "alter role current_user set default_tablespace = 'nowhere'"],
    ['a way to store tables', "alter role current_user set default_table_access_method = 'nowhere'"],
    ['replication', 'alter role current_user set session_replication_role = replica'],
    ['in one database', 'alter role current_user in database :database set row_security = off'],
  ])('do not block requests: %s', async (_name, statement) => {
    const project = await rowhouse.project('Hindered');
    // What PostgreSQL refuses is no harm; what it takes must do none.
    await run(project, statement.replace(':database', databaseOf(project.id)));
    await cutSessions(project);
    await until('it is answered', async () => (await run(project, 'select 1 as one')).status === 200, 5_000);
    await expectAllWorks(project);
  });
});

describe('settings that a statement of a batch makes', () => {
  it.each([
    "select set_config('standard_conforming_strings', 'off', true)",
    "select set_config('standard_conforming_strings', 'off', false)",
    "do $$ begin perform set_config('standard_conforming_strings', 'off', false); end $$",
    "select set_config('client_encoding', 'SJIS', true)",
  ])('%s: the next statement of a batch is refused', async (first) => {
    const project = await rowhouse.project('Batch');
    const statements = [{ query: first }, { query: "select 'a\\' as x, 2 --' as y" }];
    const { status, body } = await rowhouse.call('POST', `/projects/${project.slug}/batch`, {
      key: project.key,
      body: { statements },
    });
    expect([status, body.error?.code]).toEqual([400, 'statement_not_allowed']);
    expect(body.error.hint).toContain('params');
    expect((await run(project, values)).body.rows).toEqual([written]);
  });
});

/** Another one than it has, in SQL; null: there is none to try. */
function otherValue(
  type: string,
  choices: string[] | null,
  setting: string,
  max: string,
  name: string,
): string | null {
  if (type === 'bool') return setting === 'on' ? 'off' : 'on';
  if (type === 'enum') return `'${choices?.find((choice) => choice !== setting) ?? setting}'`;
  if (type === 'string') return stringValues[name] ?? "'x'";
  return max === setting ? '1' : max;
}
const stringValues: Record<string, string> = {
  DateStyle: "'German, DMY'",
  TimeZone: "'Asia/Tokyo'",
  search_path: "'pg_temp'",
  timezone_abbreviations: "'India'",
  lc_monetary: "'C'",
  client_encoding: "'LATIN1'",
  default_text_search_config: "'simple'",
};

async function expectAllWorks(project: Project): Promise<void> {
  const works = async (method: string, path: string, body?: object) => {
    const answer = await rowhouse.call(method, `/projects/${project.slug}${path}`, {
      key: project.key,
      ...(body && { body }),
    });
    expect(answer.status, `${path}: ${JSON.stringify(answer.body)}`).toBeLessThan(300);
    return answer.body;
  };
  await works('POST', '/query', { query: 'create table things (id int primary key, name text)' });
  await works('POST', '/tables/things', { id: 1, name: 'a\\b' });
  expect((await works('GET', '/tables/things')).rows).toEqual([{ id: 1, name: 'a\\b' }]);
  await works('POST', '/batch', { statements: [{ query: 'insert into things values (2)' }] });
  await works('POST', '/auth/signup', { email: 'ann@example.com', password: 'correct horse battery' });
  await works('POST', '/auth/signin', { email: 'ann@example.com', password: 'correct horse battery' });
  await works('GET', '/usage');
  await works('POST', '/query', { query: 'vacuum analyze things' });
  await works('POST', '/compact');
  await until(
    'it is compacted',
    async () => (await works('GET', '/compact')).compaction.status !== 'running',
  );
  expect((await works('GET', '/compact')).compaction.status).toBe('done');
  expect((await run(project, 'select current_user::text as who')).body.rows).toEqual([
    { who: roleOf(project.id) },
  ]);
  expect((await run(neighbour, 'select 1 as one')).body.rows).toEqual([{ one: 1 }]);
}
