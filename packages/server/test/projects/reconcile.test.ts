import { describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { noteLeft, reconcile } from '../../src/projects/reconcile.ts';
import { openDrops } from '../../src/servers/databases/drops.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { provision } from '../../src/servers/databases/provision.ts';
import { derivePassword } from '../../src/servers/role-passwords.ts';
import { asAdmin, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 1, background: false, keepDeletedDays: 7 });
const run = async () => {
  const { deps } = rowhouse.service;
  await noteLeft(deps);
  const drops = openDrops(deps, () => {});
  for (let round = 0; round < 10; round++) {
    await drops.begin();
    await drops.settled();
  }
  return reconcile(deps);
};
const exists = (id: string) =>
  asAdmin(
    async (admin) =>
      (await admin.query(sql`select 1 from pg_database where datname = ${databaseOf(id)}`)).length > 0,
  );
const roles = (id: string) =>
  asAdmin(
    async (admin) =>
      (await admin.query(sql`select 1 from pg_roles where rolname like ${`p\\_${id}%`}`)).length,
  );

async function spareRow(
  state: string,
  age: string,
  id = `test${Math.random().toString(36).slice(2, 14).padEnd(12, 'x')}`,
) {
  const { control, server } = rowhouse.service.deps;
  await control.query(sql`
    insert into spares (id, server_id, state, template, empty_bytes, created_at)
    values (${id}, ${server.id}, ${state}, ${server.template}, 1, now() - ${age}::interval)`);
  return id;
}

const rowCount = async (id: string) =>
  (await rowhouse.service.deps.control.query(sql`select 1 from spares where id = ${id}`)).length;

describe('spares after an interruption', () => {
  it('are dropped when half-made and abandoned', async () => {
    const { server } = rowhouse.service.deps;
    const rolesOnly = await spareRow('making', '5 minutes');
    await server.maintenance.query(sql`create role ${sql.id(`p_${rolesOnly}`)}`);
    const whole = await spareRow('making', '5 minutes');
    await provision(server, whole);
    const nothing = await spareRow('making', '5 minutes');
    await run();
    for (const id of [rolesOnly, whole, nothing]) {
      expect([await exists(id), await roles(id), await rowCount(id)]).toEqual([false, 0, 0]);
    }
  });

  it('are left alone while another process creates them', async () => {
    const id = await spareRow('making', '1 second');
    await provision(rowhouse.service.deps.server, id);
    await run();
    expect([await exists(id), await rowCount(id)]).toEqual([true, 1]);
    await rowhouse.service.deps.control.query(
      sql`update spares set created_at = now() - interval '1 hour' where id = ${id}`,
    );
    await run();
    expect([await exists(id), await rowCount(id)]).toEqual([false, 0]);
  });

  it('are dropped completely after an interrupted drop', async () => {
    const id = await spareRow('dropping', '1 second');
    await provision(rowhouse.service.deps.server, id);
    await run();
    expect([await exists(id), await roles(id), await rowCount(id)]).toEqual([false, 0, 0]);
  });

  it('are never handed out without a database', async () => {
    const id = await spareRow('ready', '1 hour');
    await run();
    expect(await rowCount(id)).toBe(0);
    expect((await rowhouse.call('POST', '/projects', { body: { name: 'Fine' } })).status).toBe(201);
  });

  it('are replaced when made from an older template', async () => {
    const id = await spareRow('ready', '1 hour');
    await provision(rowhouse.service.deps.server, id);
    await rowhouse.service.deps.control.query(
      sql`update spares set template = 'rowhouse_t_old' where id = ${id}`,
    );
    await run();
    expect([await exists(id), await rowCount(id)]).toEqual([false, 0]);
  });
});

describe('projects after an interruption', () => {
  const age = (id: string, days: number) =>
    rowhouse.service.deps.control.query(
      sql`update projects set deleted_at = now() - make_interval(days => ${days}) where id = ${id}`,
    );

  it('are dropped seven days after their deletion and not before, and free their slug', async () => {
    const early = await rowhouse.project('Early');
    const late = await rowhouse.project('Late');
    for (const { slug } of [early, late]) await rowhouse.call('DELETE', `/projects/${slug}`);
    await age(early.id, 6);
    await age(late.id, 8);
    await run();
    expect([await exists(early.id), await exists(late.id), await roles(late.id)]).toEqual([true, false, 0]);
    expect((await rowhouse.call('GET', `/projects/${late.slug}`)).status).toBe(404);
    expect((await rowhouse.call('POST', `/projects/${late.slug}/restore`)).status).toBe(404);
    expect(
      (await rowhouse.call('POST', '/projects', { body: { name: 'Late', slug: late.slug } })).status,
    ).toBe(201);
    expect((await rowhouse.call('POST', `/projects/${early.slug}/restore`)).status).toBe(200);
  });

  it('are dropped completely after an interrupted drop of the database', async () => {
    const { id, slug } = await rowhouse.project('Interrupted');
    await rowhouse.call('DELETE', `/projects/${slug}`);
    await age(id, 8);
    await asAdmin((admin) => admin.query(sql`drop database ${sql.id(databaseOf(id))} with (force)`));
    const found = await run();
    expect(found.projectsWithoutDatabase).not.toContain(id);
    expect([await roles(id), (await rowhouse.call('GET', `/projects/${slug}`)).status]).toEqual([0, 404]);
  });

  it('get a missing fence, and lose a stale one', async () => {
    const isOpen = (id: string) =>
      asAdmin(async (admin) => {
        const [row] = await admin.query<{ open: boolean }>(
          sql`select datallowconn as open from pg_database where datname = ${databaseOf(id)}`,
        );
        return row?.open;
      });
    const live = await rowhouse.project('Live');
    const gone = await rowhouse.project('Gone');
    await rowhouse.call('DELETE', `/projects/${gone.slug}`);
    await asAdmin(async (admin) => {
      await admin.query(sql`alter database ${sql.id(databaseOf(live.id))} with allow_connections false`);
      await admin.query(sql`alter database ${sql.id(databaseOf(gone.id))} with allow_connections true`);
    });
    await run();
    expect([await isOpen(live.id), await isOpen(gone.id)]).toEqual([true, false]);
  });

  it('lose a role that a neighbour depends on as soon as possible, without blocking others', async () => {
    const victim = await rowhouse.project('Victim');
    const bait = await rowhouse.project('Bait');
    const { masterKey, server } = rowhouse.service.deps;
    const user = `p_${bait.id}`;
    const at = { ...server.address, user, password: derivePassword(masterKey, user), database: user };
    await asAdmin(async (database) => {
      await database.query(sql`create table bait (id int)`);
      await database.query(sql`grant select on bait to ${sql.id(`p_${victim.id}`)}`);
    }, at);
    await rowhouse.call('DELETE', `/projects/${victim.slug}`);
    await age(victim.id, 8);
    const after = await rowhouse.project('After');
    await rowhouse.call('DELETE', `/projects/${after.slug}`);
    await age(after.id, 9);
    await run();
    expect([await exists(victim.id), await exists(after.id), await roles(victim.id)]).toEqual([
      false,
      false,
      1,
    ]);
    expect((await rowhouse.call('GET', `/projects/${victim.slug}`)).status).toBe(404);
    await asAdmin((database) => database.query(sql`drop table bait`), at);
    await run();
    expect(await roles(victim.id)).toBe(0);
  });

  it('without a database are reported, not created anew', async () => {
    const { id, slug } = await rowhouse.project('Lost');
    await asAdmin((admin) => admin.query(sql`drop database ${sql.id(databaseOf(id))} with (force)`));
    const found = await run();
    expect(found.projectsWithoutDatabase).toEqual([id]);
    expect(await exists(id)).toBe(false);
    expect((await rowhouse.call('DELETE', `/projects/${slug}`)).status).toBe(200);
    expect((await rowhouse.call('POST', `/projects/${slug}/restore`)).status).toBe(409);
    await rowhouse.service.deps.control.query(sql`delete from projects where id = ${id}`);
  });

  it('a database without a row is reported and kept, since it may hold data', async () => {
    const { id } = await rowhouse.project('Orphan');
    await rowhouse.service.deps.control.query(sql`delete from projects where id = ${id}`);
    const found = await run();
    expect(found.databasesWithoutRow).toEqual([databaseOf(id)]);
    expect(await exists(id)).toBe(true);
  });
});
