import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFailed, onTestFinished } from 'vitest';
import { type Address, openDatabase } from '../../src/postgres/admin/database.ts';
import { readMigrations } from '../../src/postgres/admin/migrations.ts';
import { type Sql, sql } from '../../src/postgres/sql.ts';
import { openUpgrades } from '../../src/projects/upgrade.ts';
import { fence, unfence } from '../../src/servers/databases/connections.ts';
import { authRoleOf, databaseOf, roleOf } from '../../src/servers/databases/names.ts';
import { derivePassword } from '../../src/servers/role-passwords.ts';
import { onlyServer } from '../../src/servers/server.ts';
import { holdTransaction } from '../support/held-transaction.ts';
import {
  address,
  asAdmin,
  newControlName,
  openTestService,
  removeTestService,
  type TestService,
  until,
} from '../support/helpers.ts';

type Project = { slug: string; id: string; key: string };
type Options = { background?: boolean; spares?: number };

/** An installation whose service is stopped and started again; removed after the test unless that failed. */
function newInstallation(at: Address = address()) {
  const controlDatabase = newControlName();
  const masterKey = randomBytes(32);
  const open = new Set<TestService>();
  let installation = '';
  let accountKey = '';
  let failed = false;
  onTestFailed(() => {
    failed = true;
    console.error(`kept for a look: control database ${controlDatabase}`);
  });
  onTestFinished(async () => {
    for (const rowhouse of open) await rowhouse.stop();
    if (!failed) await removeTestService(controlDatabase, installation);
  });
  return {
    controlDatabase,
    start: async (options: Options = {}): Promise<TestService> => {
      const rowhouse = await openTestService({
        at,
        controlDatabase,
        masterKey,
        spares: 0,
        background: false,
        ...options,
      });
      open.add(rowhouse);
      installation = rowhouse.service.deps.server.installation;
      accountKey ||= rowhouse.accountKey;
      const stop = async () => {
        open.delete(rowhouse);
        await rowhouse.stop();
      };
      const call: TestService['call'] = (method, path, more) =>
        rowhouse.call(method, path, { key: accountKey, ...more });
      const project = async (name = 'Test project') => {
        const { status, body } = await call('POST', '/projects', { body: { name } });
        expect(status, JSON.stringify(body)).toBe(201);
        return { slug: body.project.slug, id: body.project.id, key: body.api_key };
      };
      return { ...rowhouse, call, project, stop };
    },
  };
}

const inside = <R>(id: string, ...statements: Sql[]) =>
  asAdmin(
    async (database) => {
      let rows: R[] = [];
      for (const statement of statements) rows = await database.query<R>(statement);
      return rows;
    },
    { ...address(), database: databaseOf(id) },
  );

/** As a version before the functions for tables, and before guards were noted, has left it. */
async function makeOld(
  { service: { deps } }: TestService,
  id: string,
  template = 'rowhouse_t_before',
): Promise<void> {
  await inside(
    id,
    sql`drop function rowhouse.is_unchanged_now, rowhouse.is_unchanged, rowhouse.version_now, rowhouse.version_of`,
    sql`revoke all on schema rowhouse from public`,
    sql`drop schema auth cascade`,
    sql`create schema auth authorization ${sql.id(authRoleOf(id))}`,
    sql`alter default privileges for role ${sql.id(roleOf(id))} in schema public revoke all on tables from authenticated`,
    sql`alter default privileges for role ${sql.id(roleOf(id))} in schema public revoke all on sequences from authenticated`,
    sql`drop function rowhouse.hand_over_users, rowhouse.open_to_users, rowhouse.reads, rowhouse.behind, rowhouse.facts_of`,
    sql`drop event trigger if exists rowhouse_logins`,
    sql`drop function if exists rowhouse.greet_direct_login`,
    sql`drop event trigger if exists rowhouse_casts`,
    sql`drop function if exists rowhouse.check_casts`,
    sql`drop event trigger if exists rowhouse_relations`,
    sql`drop function if exists rowhouse.check_relations`,
    sql`drop function rowhouse.check_size, rowhouse.own_size`,
    sql`delete from rowhouse.migrations where number > 1`,
    sql`drop table if exists rowhouse.guards`,
  );
  await mark(deps.control, id, template);
}

const mark = (control: TestService['service']['deps']['control'], id: string, template: string) =>
  control.query(sql`update projects set template = ${template} where id = ${id}`);
const templateNow = async ({ service: { deps } }: TestService, id: string) => {
  const [row] = await deps.control.query<{ template: string }>(
    sql`select template from projects where id = ${id}`,
  );
  return row?.template;
};
const isCurrent = async (rowhouse: TestService, id: string) =>
  (await templateNow(rowhouse, id)) === rowhouse.service.deps.server.template;

/** Needs what 0002 brings. */
const query = `select rowhouse.is_unchanged('pg_class'::regclass, rowhouse.version_of('pg_class'::regclass)) as yes`;
const ask = (rowhouse: TestService, { slug, key }: Project) =>
  rowhouse.call('POST', `/projects/${slug}/query`, { key, body: { query } });
const gauge = async (rowhouse: TestService, name: string) => {
  const { body } = await rowhouse.call('GET', '/metrics');
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(body)?.[1]);
};
const logged = (rowhouse: TestService, message: string) =>
  rowhouse.log.filter((line) => line.includes(message));

/** All that is ours in a database, without what differs from one to the other. */
const contentsOf = async (id: string) => {
  const rows = await inside<{ kind: string; name: string; fact: string }>(
    id,
    sql`
    select 'function' as kind, oid::regprocedure::text as name,
           concat_ws(' ', prosrc, proacl, proconfig, proowner::regrole, prosecdef) as fact
    from pg_proc where pronamespace in ('rowhouse'::regnamespace, 'auth'::regnamespace)
    union all select 'schema', nspname, concat_ws(' ', nspacl, nspowner::regrole)
    from pg_namespace where nspname in ('rowhouse', 'auth')
    union all select 'relation', oid::regclass::text, concat_ws(' ', relkind, relacl, relowner::regrole, reloptions)
    from pg_class where relnamespace = 'auth'::regnamespace
    union all select 'column', concat_ws('.', attrelid::regclass, attname), concat_ws(' ', format_type(atttypid, atttypmod), attacl)
    from pg_attribute join pg_class on pg_class.oid = attrelid where relnamespace = 'auth'::regnamespace and attnum > 0
    union all select 'default', concat_ws(' ', defaclrole::regrole, defaclobjtype), defaclacl::text from pg_default_acl
    union all select 'migration', number::text, checksum from rowhouse.migrations
    union all select 'guard', number::text, checksum from rowhouse.guards
    union all select 'trigger', evtname, concat_ws(' ', evtevent, evttags, evtenabled) from pg_event_trigger
    union all select 'closed', oid::regprocedure::text, proacl::text from pg_proc where proname like 'pg\\_advisory%'
    order by 1, 2, 3`,
  );
  return rows.map(({ kind, name, fact }) => [kind, name, fact].map((text) => text?.replaceAll(id, '<id>')));
};

describe('a database of an earlier version', () => {
  it('is migrated in the background and is then like a new one', async () => {
    const place = newInstallation();
    const before = await place.start();
    const old = [await before.project('One'), await before.project('Two'), await before.project('Three')];
    for (const { id } of old) await makeOld(before, id);
    await before.stop();

    const after = await place.start({ background: true });
    for (const { id } of old) await until('it is up to date', () => isCurrent(after, id));
    const fresh = await after.project('Fresh');
    for (const { id } of old) expect(await contentsOf(id)).toEqual(await contentsOf(fresh.id));
    await until('it is told', async () => logged(after, 'projects upgraded').length > 0);
    expect(await gauge(after, 'rowhouse_projects_outdated')).toBe(0);
    expect((await ask(after, old[0] as Project)).body.rows).toEqual([{ yes: true }]);
  });

  it('is migrated once before its first request, even with many requests and processes', async () => {
    const place = newInstallation();
    const first = await place.start();
    const project = await first.project();
    const second = await place.start();
    await makeOld(first, project.id);
    expect(await gauge(second, 'rowhouse_projects_outdated')).toBe(1);
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) => ask(n % 2 ? first : second, project)),
    );
    expect(answers.map(({ body }) => body.rows)).toEqual(Array(12).fill([{ yes: true }]));
    expect(await isCurrent(first, project.id)).toBe(true);
    const rows = await inside(project.id, sql`select number from rowhouse.migrations order by 1`);
    expect(rows).toEqual((await readMigrations('project')).map(({ number }) => ({ number })));
  });

  it('whose recorded version was lost gets it again', async () => {
    const rowhouse = await newInstallation().start();
    const project = await rowhouse.project();
    await mark(rowhouse.service.deps.control, project.id, 'rowhouse_t_before');
    expect((await ask(rowhouse, project)).status).toBe(200);
    expect(await isCurrent(rowhouse, project.id)).toBe(true);
  });

  it('that is deleted is left alone, and migrated when it is restored', async () => {
    const place = newInstallation();
    const before = await place.start();
    const { server } = before.service.deps;
    const gone = await before.project('Gone');
    const other = await before.project('Other');
    expect((await before.call('DELETE', `/projects/${gone.slug}`)).status).toBe(200);
    await unfence(server, gone.id);
    for (const { id } of [gone, other]) await makeOld(before, id);
    await fence(server, gone.id);
    await before.stop();

    const after = await place.start({ background: true });
    await until('the live one is up to date', () => isCurrent(after, other.id));
    expect(await templateNow(after, gone.id)).toBe('rowhouse_t_before');
    expect(await gauge(after, 'rowhouse_projects_outdated')).toBe(0);
    expect((await after.call('POST', `/projects/${gone.slug}/restore`)).status).toBe(200);
    expect((await ask(after, gone)).body.rows).toEqual([{ yes: true }]);
    expect(await isCurrent(after, gone.id)).toBe(true);
  });

  it('that is a spare is replaced', async () => {
    const place = newInstallation();
    const before = await place.start({ spares: 1 });
    const { control } = before.service.deps;
    before.service.deps.servers.sparesOf(before.service.deps.server.id).fill();
    const [spare] = await until('a spare', async () => {
      const rows = await control.query<{ id: string }>(sql`select id from spares where state = 'ready'`);
      return rows.length > 0 && rows;
    });
    await control.query(sql`update spares set template = 'rowhouse_t_before'`);
    await before.stop();

    const after = await place.start({ spares: 1, background: true });
    const project = await after.project();
    expect(project.id).not.toBe(spare?.id);
    expect((await ask(after, project)).status).toBe(200);
    await until('the old one is dropped', async () => {
      const rows = await after.service.deps.server.maintenance.query(
        sql`select from pg_database where datname = ${databaseOf(spare?.id ?? '')}`,
      );
      return rows.length === 0;
    });
  });

  it('is migrated by a role that is not a superuser', async () => {
    const role = `rh_upgrader_${randomBytes(4).toString('hex')}`;
    const password = randomBytes(12).toString('hex');
    await asAdmin(async (admin) => {
      await admin.query(
        sql`create role ${sql.id(role)} login createdb createrole password ${sql.literal(password)}`,
      );
      await admin.query(sql`grant connect on database postgres to ${sql.id(role)}`);
    });
    onTestFinished(() =>
      asAdmin(async (admin) => {
        const left = await admin.query<{ name: string }>(
          sql`select datname as name from pg_database where datdba = ${role}::regrole`,
        );
        for (const { name } of left) {
          await admin.query(sql`alter database ${sql.id(name)} is_template false`);
          await admin.query(sql`drop database ${sql.id(name)}`);
        }
        await admin.query(sql`drop owned by ${sql.id(role)} cascade`);
        await admin.query(sql`drop role ${sql.id(role)}`);
      }),
    );
    const rowhouse = await newInstallation({ ...address(), user: role, password }).start();
    const project = await rowhouse.project();
    await makeOld(rowhouse, project.id);
    expect((await ask(rowhouse, project)).body.rows).toEqual([{ yes: true }]);
    expect(await inside(project.id, sql`select evtname from pg_event_trigger`)).toEqual([]);
    expect(await isCurrent(rowhouse, project.id)).toBe(true);
  });
});

it("a start enters no project's database when all are up to date", async () => {
  const place = newInstallation();
  const before = await place.start();
  const projects = [await before.project('One'), await before.project('Two')];
  for (const project of projects) expect((await ask(before, project)).status).toBe(200);
  await before.stop();
  const names = projects.map(({ id }) => databaseOf(id));
  const entered = () =>
    asAdmin(async (admin) => {
      const [row] = await admin.query<{ sessions: number; open: number }>(sql`
        select sum(sessions)::int as sessions, sum(numbackends)::int as open
        from pg_stat_database where datname = any (${names}::text[])`);
      return row;
    });
  // The counters follow what happens with a little delay.
  let sessions = 0;
  await until('the counters stand still', async () => {
    const last = sessions;
    await new Promise((resolve) => setTimeout(resolve, 600));
    const now = await entered();
    sessions = now?.sessions ?? 0;
    return now?.open === 0 && sessions === last && sessions > 0;
  });
  const after = await place.start({ background: true });
  let looks = 0;
  const { control } = after.service.deps;
  await until('the keeper has been round', async () => {
    const [row] = await control.query(sql`
      select from pg_stat_activity where datname = ${place.controlDatabase} and query like '%rowhouse keeper%'`);
    await new Promise((resolve) => setTimeout(resolve, 500));
    return row && ++looks > 6;
  });
  expect(await entered()).toEqual({ sessions, open: 0 });
});

describe('a project whose migration fails', () => {
  it('is reported once, retried, and does not hold up the others', async () => {
    const place = newInstallation();
    const before = await place.start();
    const broken = await before.project('Broken');
    const good = await before.project('Good');
    for (const { id } of [broken, good]) await makeOld(before, id);
    await inside(
      broken.id,
      sql`create function rowhouse.version_now(oid) returns text language sql as 'select null'`,
    );
    await before.stop();

    const after = await place.start({ background: true });
    await until('the good one is up to date', () => isCurrent(after, good.id));
    const [refused, served] = [await ask(after, broken), await ask(after, good)];
    expect([refused.status, refused.body.error.code, served.status]).toEqual([503, 'unavailable', 200]);
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(JSON.stringify(refused.body)).not.toContain('version_now');
    expect(await gauge(after, 'rowhouse_projects_outdated')).toBe(1);
    // Nothing of a half-done upgrade is there.
    const rows = await inside(broken.id, sql`select number from rowhouse.migrations`);
    expect(rows).toEqual([{ number: 1 }]);
    // Long enough for three attempts.
    await new Promise((resolve) => setTimeout(resolve, 5_000));
    expect(logged(after, 'cannot be upgraded').length).toBe(1);

    await inside(broken.id, sql`drop function rowhouse.version_now(oid)`);
    await until('it is up to date', () => isCurrent(after, broken.id));
    expect((await ask(after, broken)).status).toBe(200);
    expect(await gauge(after, 'rowhouse_projects_outdated')).toBe(0);
  });

  it('with a lock in the way waits alone, and only while it is held', async () => {
    const rowhouse = await newInstallation().start({ background: true });
    const [held, free] = [await rowhouse.project('Held'), await rowhouse.project('Free')];
    const letGo = await holdTransaction({ ...address(), database: databaseOf(held.id) }, (transaction) =>
      transaction.query(sql`lock table rowhouse.migrations in row exclusive mode`),
    );
    for (const { id } of [held, free]) await mark(rowhouse.service.deps.control, id, 'rowhouse_t_before');
    const startedAt = performance.now();
    const answers = await Promise.all([
      ask(rowhouse, free),
      ...Array.from({ length: 8 }, () => ask(rowhouse, held)),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, ...Array(8).fill(503)]);
    expect(performance.now() - startedAt).toBeLessThan(8_000);
    await letGo();
    await until('it is served', async () => (await ask(rowhouse, held)).status === 200);
  });

  it('with a long transaction delays its migration, which blocks others only for a moment', async () => {
    const rowhouse = await newInstallation().start();
    const { control, server } = rowhouse.service.deps;
    const project = await rowhouse.project();
    const neighbour = await rowhouse.project();
    const make =
      'create table auth.people (id int); grant select on auth.people to public; grant usage on schema auth to public';
    const next = (texts: string[]) => {
      const { migrations } = server.projectSchema;
      const more = texts.map((text, index) => ({
        number: migrations.length + index + 1,
        name: `next_${index}`,
        text,
        checksum: text,
      }));
      const projectSchema = { ...server.projectSchema, migrations: [...migrations, ...more] };
      return openUpgrades({
        control,
        servers: onlyServer({ ...server, projectSchema, template: `rowhouse_t_next${texts.length}` }),
      });
    };
    const made = next([make]);
    for (const { id } of [project, neighbour]) await made.ensure(id);
    const user = roleOf(project.id);
    const login = { user, password: derivePassword(rowhouse.service.deps.masterKey, user), database: user };
    const hostile = openDatabase({ ...address(), ...login }, { max: 1 });
    const altered = next([make, 'alter table auth.people add column name text']);
    await hostile.transaction(async (transaction) => {
      await transaction.query(sql`select from auth.people`);
      const startedAt = performance.now();
      await expect(altered.ensure(project.id)).rejects.toMatchObject({ code: 'unavailable', retryAfterS: 1 });
      expect(performance.now() - startedAt).toBeLessThan(5_000);
      // At once: nobody queues up behind the lock again for the time being.
      const againAt = performance.now();
      await expect(altered.ensure(project.id)).rejects.toMatchObject({ code: 'unavailable' });
      expect(performance.now() - againAt).toBeLessThan(500);
      await altered.ensure(neighbour.id);
    });
    await until('it is up to date', () =>
      altered.ensure(project.id).then(
        () => true,
        () => false,
      ),
    );
    await hostile.end();
    await altered.stop();
  });

  it('because its session was terminated is left unchanged', async () => {
    const rowhouse = await newInstallation().start();
    const { control, server } = rowhouse.service.deps;
    const project = await rowhouse.project();
    const text = 'create table rowhouse.half (id int); select pg_sleep(20)';
    const { migrations } = server.projectSchema;
    const slow = { number: migrations.length + 1, name: 'slow', text, checksum: text };
    const projectSchema = { ...server.projectSchema, migrations: [...migrations, slow] };
    const upgrades = openUpgrades({
      control,
      servers: onlyServer({ ...server, projectSchema, template: 'rowhouse_t_slow' }),
    });
    const attempt = upgrades.ensure(project.id);
    const ended = expect(attempt).rejects.toMatchObject({ code: 'unavailable' });
    await until('it runs', async () => {
      const [row] = await server.maintenance.query(sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = ${databaseOf(project.id)} and query like '%rowhouse.half%'`);
      return row;
    });
    await ended;
    expect(await inside(project.id, sql`select to_regclass('rowhouse.half') as half`)).toEqual([
      { half: null },
    ]);
    expect(await isCurrent(rowhouse, project.id)).toBe(true);
    expect((await ask(rowhouse, project)).status).toBe(200);
  });
});

it("no code of a hostile project runs with the service's rights", async () => {
  const rowhouse = await newInstallation().start();
  const project = await rowhouse.project('Hostile');
  const run = async (text: string) => {
    const { key, slug } = project;
    const { status, body } = await rowhouse.call('POST', `/projects/${slug}/query`, {
      key,
      body: { query: text },
    });
    expect(status, JSON.stringify(body)).toBe(200);
    return body.rows;
  };
  await run('create table seen (who text, what text)');
  await run('grant all on seen to public');
  const trap = (name: string, args: string, result: string, value: string) =>
    run(`create function public.${name}(${args}) returns ${result} language plpgsql as $$
      begin
        if current_user <> '${roleOf(project.id)}' then insert into public.seen values (current_user, '${name}'); end if;
        return ${value};
      end $$`);
  await trap('now', '', 'timestamptz', 'pg_catalog.now()');
  await trap('hashtext', 'text', 'int', '1');
  await trap('format', 'text, variadic text[]', 'text', `'select 1'`);
  await trap('same', 'a int, b int', 'boolean', 'true');
  await trap('same_text', 'a text, b text', 'boolean', 'true');
  await trap('same_name', 'a name, b text', 'boolean', 'true');
  await trap('same_oid', 'a oid, b oid', 'boolean', 'true');
  const operators = {
    same: 'int, int',
    same_text: 'text, text',
    same_name: 'name, text',
    same_oid: 'oid, oid',
  };
  for (const [name, sides] of Object.entries(operators)) {
    const [left, right] = sides.split(', ');
    for (const operator of ['=', '<>', '~', '>']) {
      await run(
        `create operator public.${operator} (leftarg = ${left}, rightarg = ${right}, function = public.${name})`,
      );
    }
  }
  await run('create table migrations (number int, checksum text)');
  await run('create table guards (number int, checksum text)');
  await run('create domain public.regprocedure as text');
  await run(`alter role current_user set search_path = public, pg_catalog`);
  await makeOld(rowhouse, project.id);

  const upgrades = openUpgrades(rowhouse.service.deps);
  await upgrades.ensure(project.id);
  expect(await isCurrent(rowhouse, project.id)).toBe(true);
  expect(await run('select * from seen')).toEqual([]);
  const fresh = await rowhouse.project('Fresh');
  expect(await contentsOf(project.id)).toEqual(await contentsOf(fresh.id));

  await makeOld(rowhouse, project.id);
  await run('drop schema public cascade');
  await openUpgrades(rowhouse.service.deps).ensure(project.id);
  // What tables of schema public are born with went with it.
  const rest = (await contentsOf(fresh.id)).filter(([kind]) => kind !== 'default');
  expect(await contentsOf(project.id)).toEqual(rest);
});

describe('a database that a newer version has used', () => {
  const future = async (id: string) => {
    const [{ next = 0 } = {}] = await inside<{ next: number }>(
      id,
      sql`insert into rowhouse.migrations (number, name, checksum)
          select max(number) + 1, 'future', 'future' from rowhouse.migrations returning number as next`,
    );
    return next;
  };

  it('is left alone, served and reported', async () => {
    const place = newInstallation();
    const before = await place.start();
    const { control } = before.service.deps;
    const project = await before.project();
    const next = await future(project.id);
    await control.query(sql`insert into templates values ('rowhouse_t_future', ${next}, 1)`);
    await mark(control, project.id, 'rowhouse_t_future');
    const was = await contentsOf(project.id);
    await before.stop();

    const after = await place.start({ background: true });
    await until('it is told', async () => logged(after, 'newer Rowhouse').length > 0);
    expect((await ask(after, project)).status).toBe(200);
    expect(await gauge(after, 'rowhouse_projects_newer')).toBe(1);
    expect(await gauge(after, 'rowhouse_projects_outdated')).toBe(0);
    expect(await contentsOf(project.id)).toEqual(was);
    expect(await templateNow(after, project.id)).toBe('rowhouse_t_future');
    expect(logged(after, 'newer Rowhouse').length).toBe(1);

    await after.service.deps.control.query(sql`update servers set name = 'external'`);
    const { user, password, host, port } = address();
    const doctor = spawnSync(
      process.execPath,
      [fileURLToPath(new URL('../../dist/programs/doctor.js', import.meta.url))],
      {
        encoding: 'utf8',
        env: {
          PATH: process.env.PATH,
          ROWHOUSE_DATABASE_URL: `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/postgres`,
          ROWHOUSE_CONTROL_DATABASE: place.controlDatabase,
        },
      },
    );
    expect(JSON.parse(doctor.stdout)).toContainEqual({
      check: 'projects',
      state: 'warning',
      found: expect.stringContaining('1 were used by a newer Rowhouse'),
      todo: expect.any(String),
    });
  });

  it('is left alone even if only the database itself has the version', async () => {
    const rowhouse = await newInstallation().start();
    const project = await rowhouse.project();
    await future(project.id);
    await mark(rowhouse.service.deps.control, project.id, 'rowhouse_t_unknown');
    const was = await contentsOf(project.id);
    for (let times = 0; times < 3; times++) expect((await ask(rowhouse, project)).status).toBe(200);
    expect(await contentsOf(project.id)).toEqual(was);
    expect(await templateNow(rowhouse, project.id)).toBe('rowhouse_t_unknown');
  });
});
