import { statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf, roleOf, rolesOf } from '../../src/servers/databases/names.ts';
import { inside } from '../support/end-users.ts';
import { corpus, download, run } from '../support/exports.ts';
import { address, api, asAdmin, openSecondProcess, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();

type Project = { id: string; slug: string; key: string };

async function branchOf(parent: { slug: string }, more: object = {}): Promise<Project> {
  const { status, body } = await rowhouse.call('POST', `/projects/${parent.slug}/branches`, {
    body: { name: 'A branch', ...more },
  });
  expect(status, JSON.stringify(body)).toBe(201);
  return { id: body.project.id, slug: body.project.slug, key: body.api_key };
}

async function values(project: { slug: string }, query: string, key?: string): Promise<unknown[]> {
  const { status, body } = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
    ...(key && { key }),
    body: { query },
  });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.rows.map((row: object) => Object.values(row)[0]);
}

const signUp = { email: 'ada@example.com', password: 'correct horse battery' };
const auth = (project: Project, action: string, body: object) =>
  rowhouse.call('POST', `/projects/${project.slug}/auth/${action}`, { key: project.key, body });

/** As text, with the names of the project's roles made the same for all. */
async function dumpOf(project: Project): Promise<string> {
  const { status, bytes } = await download(rowhouse, project, 'sql');
  expect(status).toBe(200);
  const dump = bytes.toString();
  return dump.replaceAll(project.id, 'x').replace(/^\\(un)?restrict .*$/gm, '');
}

describe('a branch', () => {
  it('has everything of its parent, and works apart from it', async () => {
    const parent = await rowhouse.project('Corpus');
    await run(rowhouse, parent, ...corpus);
    expect((await auth(parent, 'signup', signUp)).status).toBe(201);
    await run(
      rowhouse,
      parent,
      'update teas set owner = (select id from auth.users)',
      // More than are handed over at once.
      "do $$ begin for n in 1..250 loop execute format('create table many_%s (id serial primary key)', n); end loop; end $$",
      'create schema app',
      'alter default privileges in schema app grant select on tables to authenticated',
      'alter default privileges revoke execute on functions from public',
      'create table app.guarded (id int)',
      'alter table app.guarded enable row level security',
      `create policy own on app.guarded to ${roleOf(parent.id)} using (true)`,
      // Names that are not what they seem, where statements are put together.
      `create schema "s'; drop schema app cascade; --"`,
      `create table "s'; drop schema app cascade; --"."%I $body$ ""; select 1/0; --" (id int)`,
      `create policy "%s' ""; select 1/0" on "s'; drop schema app cascade; --"."%I $body$ ""; select 1/0; --"
         to ${roleOf(parent.id)}, authenticated using (true)`,
      `alter default privileges in schema "s'; drop schema app cascade; --" grant usage on sequences to anon`,
      `create function "s'; drop schema app cascade; --"."f(int); --"(int, text) returns int language sql as 'select 1'`,
      `grant execute on function "s'; drop schema app cascade; --"."f(int); --"(int, text) to ${roleOf(parent.id)}_auth`,
      // Would be called, were names resolved in the project's schemas.
      `create function public.format(text, text) returns text language plpgsql as $$ begin raise 'called'; end $$`,
      `create function public.quote_ident(name) returns text language plpgsql as $$ begin raise 'called'; end $$`,
    );
    const branch = await branchOf(parent, { slug: 'corpus-branch' });
    expect(branch.slug).toBe('corpus-branch');

    const dump = await dumpOf(parent);
    expect(dump).toContain('ALTER DEFAULT PRIVILEGES');
    // The role of users' data keeps no grant of the project: it is the service's own.
    expect(await dumpOf(branch)).toBe(
      dump.replace(/^GRANT .* ON FUNCTION .*f\(int\); --.* TO p_x_auth;\n/m, ''),
    );

    await run(rowhouse, branch, 'delete from teas', 'create table only_here (id int)');
    expect(await values(parent, 'select count(*) from teas')).not.toEqual([0]);
    const { status, body } = await auth(branch, 'signin', signUp);
    expect(status, JSON.stringify(body)).toBe(200);
    expect((await auth(parent, 'signin', signUp)).status).toBe(200);
    // A token of the one is no token of the other.
    const user = await rowhouse.call('GET', `/projects/${parent.slug}/auth/user`, {
      key: parent.key,
      headers: { authorization: `Bearer ${body.session.access_token}` },
    });
    expect(user.status).toBe(401);
    const asUser = await rowhouse.call('GET', `/projects/${branch.slug}/tables/only_here`, {
      key: branch.key,
      headers: { authorization: `Bearer ${body.session.access_token}` },
    });
    expect(asUser.status, JSON.stringify(asUser.body)).toBe(200);
  });

  it('is a project with a parent, a size and its own key', async () => {
    const parent = await rowhouse.project('Wire');
    await run(
      rowhouse,
      parent,
      "create table t as select repeat('x', 1000) as v from generate_series(1, 5000)",
    );
    const expires = new Date(Date.now() + 3_600_000).toISOString();
    const { status, body, headers } = await rowhouse.call('POST', `/projects/${parent.slug}/branches`, {
      body: { name: 'Preview', limit_mb: 64, expires_at: expires },
    });
    expect(status).toBe(201);
    expect(headers.location).toBe(`/api/dbaas/v2/projects/${body.project.slug}`);
    expect(body.project).toMatchObject({
      name: 'Preview',
      limit_mb: 64,
      status: 'ready',
      parent: parent.slug,
      expires_at: expires,
    });
    expect(body.project.size_mb).toBeGreaterThan(5);
    expect(body.project.size_mb).toBeLessThan(9);
    const { slug } = body.project;
    expect((await rowhouse.call('GET', `/projects/${slug}`, { key: body.api_key })).body.project.parent).toBe(
      parent.slug,
    );
    expect((await rowhouse.call('GET', `/projects/${slug}`, { key: parent.key })).status).toBe(404);
    const list = await rowhouse.call('GET', `/projects/${parent.slug}/branches`);
    expect(list.body.branches.map((branch: Project) => branch.slug)).toEqual([slug]);
    // The parent's limit if none is given, and a branch of a branch.
    const second = await branchOf({ slug });
    const { body: found } = await rowhouse.call('GET', `/projects/${second.slug}`);
    expect(found.project).toMatchObject({ limit_mb: 64, parent: slug });

    await rowhouse.call('DELETE', `/projects/${slug}`);
    const { body: orphan } = await rowhouse.call('GET', `/projects/${second.slug}`);
    expect(orphan.project).toMatchObject({ status: 'ready' });
    expect(orphan.project.parent).toBeUndefined();
    expect(await values(second, 'select count(*) from t')).toEqual([5000]);
  });

  it('leaves no privilege to the roles of the other project', async () => {
    const parent = await rowhouse.project('Roles');
    await run(
      rowhouse,
      parent,
      'create table t (id int)',
      `grant select on t to ${roleOf(parent.id)}_auth`,
      `alter role ${roleOf(parent.id)} set search_path = public, "odd, name"`,
      `alter role ${roleOf(parent.id)} in database ${databaseOf(parent.id)} set work_mem = '5MB'`,
      `alter role ${roleOf(parent.id)} set idle_in_transaction_session_timeout = '1ms'`,
      `alter role ${roleOf(parent.id)} in database ${databaseOf(parent.id)} set transaction_timeout = '1ms'`,
    );
    const privileges = () =>
      asAdmin((admin) =>
        admin.query(sql`select datacl::text from pg_database where datname = ${databaseOf(parent.id)}`),
      );
    const before = await privileges();
    const branch = await branchOf(parent);
    expect(await privileges()).toEqual(before);
    for (const [here, other] of [
      [branch, parent],
      [parent, branch],
    ] as const) {
      const left = await inside<{ what: string }>(
        here,
        sql`
          select pg_describe_object(classid, objid, objsubid) as what from pg_shdepend
          where dbid = (select oid from pg_database where datname = current_database())
            and refobjid in (select oid from pg_roles where rolname = any (${rolesOf(other.id)}::name[]))`,
      );
      expect(left).toEqual([]);
      const [connect] = await inside<{ may: boolean }>(
        here,
        sql`select has_database_privilege(${roleOf(other.id)}, current_database(), 'connect') as may`,
      );
      expect(connect?.may).toBe(false);
    }
    expect(await settingsOf(branch)).toEqual(await settingsOf(parent));
  });

  it('ends direct connections of its parent, with a code that clients know', async () => {
    const parent = await rowhouse.project('Direct');
    const { body } = await rowhouse.call('GET', `/projects/${parent.slug}/connection`);
    const client = new pg.Client(body.connection.url);
    const ended = new Promise<unknown>((resolve) => client.on('error', resolve));
    await client.connect();
    await client.query('begin; create table half (id int)');
    const branch = await branchOf(parent);
    expect(await ended).toMatchObject({ code: '57P01' });
    expect(await values(branch, "select to_regclass('half')")).toEqual([null]);
    const again = new pg.Client(body.connection.url);
    await again.connect();
    await again.end();
  });

  it('is deleted when its time is over, and can be restored', async () => {
    const parent = await rowhouse.project('Expiry');
    const branch = await branchOf(parent, { expires_at: new Date(Date.now() + 86_400_000).toISOString() });
    const patch = (body: object) => rowhouse.call('PATCH', `/projects/${branch.slug}`, { body });
    expect((await patch({ expires_at: null })).body.project.expires_at).toBeUndefined();
    expect((await patch({ expires_at: '2020-01-01T00:00:00Z' })).status).toBe(400);
    // PostgreSQL itself reads no offset beyond 15:59.
    const { body: far } = await patch({ expires_at: '2035-01-02T00:00:00+23:59' });
    expect(far.project.expires_at).toBe('2035-01-01T00:01:00.000Z');
    expect((await patch({ expires_at: new Date(Date.now() + 300).toISOString() })).status).toBe(200);
    await until('the branch is deleted', async () => {
      const { body } = await rowhouse.call('GET', `/projects/${branch.slug}`);
      return body.project.status === 'deleted';
    });
    expect((await rowhouse.call('GET', `/projects/${branch.slug}`, { key: branch.key })).status).toBe(401);
    const { body } = await rowhouse.call('POST', `/projects/${branch.slug}/restore`);
    expect(body.project).toMatchObject({ status: 'ready', parent: parent.slug });
    expect(body.project.expires_at).toBeUndefined();
    await rowhouse.service.deps.control.query(sql`select 1`);
    expect(await values(branch, 'select 1')).toEqual([1]);
  });
});

describe('a live branch', () => {
  it('is made by a job, from an export, and has everything of its parent', async () => {
    const parent = await rowhouse.project('Live parent');
    await run(rowhouse, parent, ...corpus);
    expect((await auth(parent, 'signup', signUp)).status).toBe(201);
    const { status, body } = await rowhouse.call('POST', `/projects/${parent.slug}/branches`, {
      body: { name: 'Live', mode: 'live', limit_mb: 100 },
    });
    expect([status, body.error]).toEqual([201, undefined]);
    expect(body.project).toMatchObject({ parent: parent.slug, limit_mb: 100, status: 'creating' });
    expect(body.job).toMatchObject({ kind: 'branch', project: body.project.slug });
    const branch = { id: body.project.id, slug: body.project.slug, key: body.api_key };
    const job = await until('the job has ended', async () => {
      const { body: found } = await rowhouse.call('GET', `${api}/jobs/${body.job.id}`);
      return found.job.status === 'running' ? false : found.job;
    });
    expect([job.status, job.error]).toEqual(['done', null]);
    expect(await values(branch, 'select count(*) from teas', branch.key)).toEqual(
      await values(parent, 'select count(*) from teas'),
    );
    expect((await auth(branch, 'signin', signUp)).status).toBe(200);
    const list = await rowhouse.call('GET', `/projects/${parent.slug}/branches`);
    expect(list.body.branches).toMatchObject([{ slug: branch.slug, status: 'ready' }]);
    // It can be reset like any other.
    await run(rowhouse, branch, 'drop table teas cascade');
    expect((await rowhouse.call('POST', `/projects/${branch.slug}/reset`)).status).toBe(200);
    expect(await values(branch, 'select count(*) from teas', branch.key)).toEqual([2]);
  });

  it('says so if its parent is deleted meanwhile', async () => {
    const parent = await rowhouse.project('Short-lived parent');
    await run(rowhouse, parent, 'create table t (id int)');
    const at = `/projects/${parent.slug}`;
    const branching = async () => {
      const body = { name: 'Orphan', mode: 'live' };
      const started = await rowhouse.call('POST', `${at}/branches`, { body });
      return { started: started.body.job, deleted: await rowhouse.call('DELETE', at) };
    };
    // The export waits for a lock, so that it has not ended when the project is deleted. That ends the session of the lock.
    let both: ReturnType<typeof branching> | undefined;
    await asAdmin(
      (admin) =>
        admin.transaction(async (other) => {
          await other.query(sql`lock table t`);
          both = branching();
          await both;
        }),
      { ...address(), database: databaseOf(parent.id) },
    ).catch(() => {});
    const { started, deleted } = (await both) ?? expect.fail('nothing was locked');
    expect(deleted.status).toBe(200);
    const job = await until('the job has ended', async () => {
      const { body } = await rowhouse.call('GET', `${api}/jobs/${started.id}`);
      return body.job.status === 'running' ? false : body.job;
    });
    expect([job.status, job.error.code]).toEqual(['failed', 'project_not_found']);
    expect(job.error.message).toContain('is deleted');
  });
});

describe('a branch that is refused', () => {
  it('says why, and changes nothing', async () => {
    const parent = await rowhouse.project('Refused');
    await run(
      rowhouse,
      parent,
      "create table t as select repeat('x', 1000) as v from generate_series(1, 3000)",
    );
    await until('its size is known', async () => {
      const { body } = await rowhouse.call('GET', `/projects/${parent.slug}`);
      return body.project.size_mb > 2;
    });
    const path = `/projects/${parent.slug}/branches`;
    const refused = async (body: object, status: number, code: string) => {
      const answer = await rowhouse.call('POST', path, { body: { name: 'No', ...body } });
      expect([answer.status, answer.body.error?.code]).toEqual([status, code]);
      return answer.body.error;
    };
    await refused({ at: '2026-11-16T10:00:00Z', mode: 'copy' }, 400, 'invalid_request');
    await refused({ at: '2026-11-16T10:00:00Z' }, 409, 'backups_off');
    await refused({ expires_at: '2020-01-01T00:00:00Z' }, 400, 'invalid_request');
    await refused({ limit_mb: 2 }, 400, 'invalid_request');
    await refused({ limit_mb: 1_000_000 }, 400, 'invalid_request');
    await refused({ slug: parent.slug }, 409, 'slug_taken');
    await refused({ unknown: 1 }, 400, 'invalid_request');
    expect((await rowhouse.call('POST', path, { key: parent.key, body: { name: 'No' } })).status).toBe(403);
    expect((await rowhouse.call('GET', path, { key: parent.key })).status).toBe(403);
    expect(
      (await rowhouse.call('POST', '/projects/there-is-none/branches', { body: { name: 'No' } })).status,
    ).toBe(404);
    const { bavail, bsize } = statfsSync(tmpdir());
    const second = await openSecondProcess(rowhouse, {
      // Other processes can free space meanwhile.
      disk: { folder: tmpdir(), reserveBytes: 2 * bavail * bsize },
    });
    try {
      const { status, body: full } = await second.call('POST', path, {
        key: rowhouse.accountKey,
        body: { name: 'No' },
      });
      expect([status, full.error.code]).toEqual([507, 'server_full']);
    } finally {
      await second.stop();
    }
    for (const action of ['reset', 'promote'])
      expect((await rowhouse.call('POST', `/projects/${parent.slug}/${action}`)).status).toBe(409);
    const { body } = await rowhouse.call('GET', path);
    expect(body.branches).toEqual([]);
  });
});

describe('reset and promote', () => {
  it('reset gives a branch the present state of its parent, under its own slug and key, in every process', async () => {
    const parent = await rowhouse.project('Reset');
    await run(rowhouse, parent, 'create table t (id int)', 'insert into t values (1)');
    const branch = await branchOf(parent);
    await run(rowhouse, branch, 'insert into t values (2)', 'alter table t add extra text');
    const second = await openSecondProcess(rowhouse);
    try {
      const rows = (service: typeof rowhouse) =>
        service.call('GET', `/projects/${branch.slug}/tables/t`, { key: branch.key });
      expect((await rows(second)).body.columns).toEqual(['id', 'extra']);
      await run(rowhouse, parent, 'insert into t values (3)');
      const { body: before } = await rowhouse.call('GET', `/projects/${branch.slug}/connection`);
      const { status, body } = await rowhouse.call('POST', `/projects/${branch.slug}/reset`);
      expect(status, JSON.stringify(body)).toBe(200);
      expect(body.project).toMatchObject({ slug: branch.slug, id: branch.id, parent: parent.slug });
      for (const service of [rowhouse, second])
        expect((await rows(service)).body).toMatchObject({ columns: ['id'], rows: [{ id: 1 }, { id: 3 }] });
      // The connection string works as before.
      const { body: after } = await rowhouse.call('GET', `/projects/${branch.slug}/connection`);
      expect(after.connection).toEqual(before.connection);
      const client = new pg.Client(before.connection.url);
      await client.connect();
      await client.query('insert into t values (4)');
      await client.end();
      expect(await values(parent, 'select count(*) from t')).toEqual([2]);
      expect(await values(branch, 'select count(*) from t', branch.key)).toEqual([3]);
    } finally {
      await second.stop();
    }
    const left = await rowhouse.service.deps.control.query(sql`
      select from swaps union all select from spares where state <> 'ready' union all select from holds`);
    expect(left).toEqual([]);
  });

  it("promote gives the parent's slug, keys and users' tokens the branch's data, and keeps the old data for a restore", async () => {
    const parent = await rowhouse.project('Promote');
    await run(rowhouse, parent, 'create table t (v text)', "insert into t values ('old')");
    const { body: signed } = await auth(parent, 'signup', signUp);
    const { body: renewing } = await auth(parent, 'signin', signUp);
    const branch = await branchOf(parent);
    // Passwords come along. Tokens do not: those of the parent are invalid on the branch.
    const refresh = async (at: typeof parent, { session }: { session: { refresh_token: string } }) =>
      auth(at, 'refresh', { refresh_token: session.refresh_token });
    expect((await refresh(branch, signed)).status).toBe(401);
    const onBranch = await auth(branch, 'signin', signUp);
    expect(onBranch.status).toBe(200);
    const { body: renewed } = await refresh(parent, renewing);
    const grandchild = await branchOf(branch);
    await run(rowhouse, branch, "update t set v = 'new'");
    const second = await openSecondProcess(rowhouse);
    try {
      const read = async (service: typeof rowhouse, key: string) => {
        const { body } = await service.call('GET', `/projects/${parent.slug}/tables/t`, { key });
        return body.rows;
      };
      expect(await read(second, parent.key)).toEqual([{ v: 'old' }]);
      const { status, body } = await rowhouse.call('POST', `/projects/${branch.slug}/promote`);
      expect(status, JSON.stringify(body)).toBe(200);
      expect(body.project).toMatchObject({ slug: parent.slug, id: parent.id, status: 'ready' });
      expect(body.replaced).toMatchObject({ slug: branch.slug, status: 'deleted' });
      for (const service of [rowhouse, second]) {
        expect(await read(service, parent.key)).toEqual([{ v: 'new' }]);
        expect((await service.call('GET', `/projects/${branch.slug}`, { key: branch.key })).status).toBe(401);
      }
      // Signed in before the branch was made: the session is in the branch, and the key that signs is the parent's.
      const user = await second.call('GET', `/projects/${parent.slug}/auth/user`, {
        key: parent.key,
        headers: { authorization: `Bearer ${signed.session.access_token}` },
      });
      expect(user.body.user).toMatchObject({ email: signUp.email });
      expect((await refresh(parent, signed)).status).toBe(200);
      for (const { session } of [renewed, onBranch.body])
        expect((await refresh(parent, { session })).status).toBe(401);
    } finally {
      await second.stop();
    }
    const { body: child } = await rowhouse.call('GET', `/projects/${grandchild.slug}`);
    expect(child.project.parent).toBe(parent.slug);
    expect((await rowhouse.call('POST', `/projects/${branch.slug}/restore`)).status).toBe(200);
    expect(await values(branch, 'select v from t', branch.key)).toEqual(['old']);
    expect(await values(parent, 'select v from t', parent.key)).toEqual(['new']);
  });

  it('promote is refused where the data would not fit', async () => {
    const parent = await rowhouse.project('Small');
    const branch = await branchOf(parent, { limit_mb: 100 });
    await rowhouse.call('PATCH', `/projects/${parent.slug}`, { body: { limit_mb: 2 } });
    await run(
      rowhouse,
      branch,
      "create table t as select repeat('x', 1000) as v from generate_series(1, 5000)",
    );
    await until('its size is known', async () => {
      const { body } = await rowhouse.call('GET', `/projects/${branch.slug}`);
      return body.project.size_mb > 4;
    });
    const { status, body } = await rowhouse.call('POST', `/projects/${branch.slug}/promote`);
    expect([status, body.error.code]).toEqual([409, 'conflict']);
    expect(body.error.hint).toContain('limit_mb');
    expect(await values(parent, "select to_regclass('t')")).toEqual([null]);
  });
});

/** The settings of the project's role, with its name left out. */
async function settingsOf({ id }: Project): Promise<unknown> {
  const rows = await asAdmin((admin) =>
    admin.query<{ settings: string[]; here: boolean }>(sql`
      select array(select unnest(setconfig) order by 1) as settings, setdatabase <> 0 as here from pg_db_role_setting
      where setrole = ${roleOf(id)}::regrole order by 2`),
  );
  expect(rows).toHaveLength(2);
  return rows;
}
