import { randomBytes } from 'node:crypto';
import { afterAll, describe, expect, it } from 'vitest';
import { followChanges, recordChange } from '../../src/control/change-feed.ts';
import { openControl, prepareControl } from '../../src/control/control.ts';
import { type Migration, migrate, readMigrations } from '../../src/postgres/admin/migrations.ts';
import { sql } from '../../src/postgres/sql.ts';
import {
  address,
  asAdmin,
  newControlName,
  openTestService,
  removeTestService,
  until,
} from '../support/helpers.ts';

const made: string[] = [];
afterAll(() =>
  asAdmin(async (admin) => {
    for (const name of made) await admin.query(sql`drop database if exists ${sql.id(name)} with (force)`);
  }),
);
function newControl(): string {
  made.push(newControlName());
  return made.at(-1) ?? '';
}

describe('migrations', () => {
  const migration = (number: number, text: string): Migration => ({
    number,
    name: `m${number}`,
    text,
    checksum: text,
  });

  it('run once each, in order, and a failed one changes nothing', async () => {
    const name = newControl();
    await prepareControl(address(), name);
    const control = openControl(address(), name);
    const real = await readMigrations('control');
    const next = real.length + 1;
    const good = migration(next, 'create table extra (id int); insert into extra values (1)');
    const bad = migration(next + 1, 'create table more (id int); select 1/0');
    expect(await control.session((session) => migrate(session, real))).toEqual([]);
    await expect(control.session((session) => migrate(session, [...real, good, bad]))).rejects.toThrow(
      'division',
    );
    expect(await control.query(sql`select id from extra`)).toEqual([{ id: 1 }]);
    expect(await control.query(sql`select to_regclass('more') as more`)).toEqual([{ more: null }]);

    const changed = { ...good, checksum: 'other' };
    await expect(control.session((session) => migrate(session, [...real, changed]))).rejects.toThrow(
      'never change',
    );
    await expect(control.session((session) => migrate(session, real))).rejects.toThrow('newer Rowhouse');
    await control.end();
  });

  it('run once although many services start at the same time', async () => {
    const name = newControl();
    await Promise.all(Array.from({ length: 6 }, () => prepareControl(address(), name)));
    const control = openControl(address(), name);
    const [row] = await control.query<{ count: number }>(sql`select count(*)::int as count from migrations`);
    expect(row?.count).toBe((await readMigrations('control')).length);
    await control.end();
  });
});

it('two whole services that start at once share one account, one template and one installation', async () => {
  const controlDatabase = newControl();
  const masterKey = randomBytes(32);
  const houses = await Promise.all([
    openTestService({ controlDatabase, masterKey }),
    openTestService({ controlDatabase, masterKey }),
  ]);
  const keys = houses.map(({ accountKey }) => accountKey).filter(Boolean);
  expect(keys.length, 'one of them made the key').toBe(1);
  const [key = ''] = keys;
  const [one, two] = houses;
  const create = (at: typeof one, n: number) =>
    at.call('POST', '/projects', { key, body: { name: `P${n}` } });
  const answers = await Promise.all(Array.from({ length: 8 }, (_, n) => create(n % 2 ? one : two, n)));
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(201));
  expect(new Set(answers.map(({ body }) => body.project.id)).size).toBe(8);
  const { installation, template } = one.service.deps.server;
  expect(two.service.deps.server).toMatchObject({ installation, template });
  for (const rowhouse of houses) await rowhouse.stop();
  await removeTestService(controlDatabase, installation);
});

describe('the feed of changes', () => {
  it('misses no change that commits late or out of order', async () => {
    const name = newControl();
    await prepareControl(address(), name);
    const control = openControl(address(), name);
    const seen = new Set<string>();
    const feed = followChanges(control);
    feed.listen(({ keyId }) => void seen.add(keyId ?? ''));
    await until('it is fresh', async () => feed.isFresh());
    const late = control.transaction(async (transaction) => {
      await transaction.query(recordChange({ keyId: 'late' }));
      await new Promise((resolve) => setTimeout(resolve, 900));
    });
    await control.query(recordChange({ keyId: 'early' }));
    await until('the early one is seen', async () => seen.has('early'));
    await late;
    await until('the late one is seen', async () => seen.has('late'));
    await feed.stop();
    await control.end();
  });

  it('is no longer trusted when PostgreSQL stops answering', async () => {
    const name = newControl();
    await prepareControl(address(), name);
    const control = openControl(address(), name);
    const feed = followChanges(control);
    await until('it is fresh', async () => feed.isFresh());
    await asAdmin(async (admin) => {
      await admin.query(sql`alter database ${sql.id(name)} with allow_connections false`);
      await admin.query(sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`);
    });
    await until('it is not', async () => !feed.isFresh(), 5000);
    await feed.stop();
    await control.end();
  });

  it('tells a process whether it is the only one, and when the others know of it', async () => {
    const name = newControl();
    await prepareControl(address(), name);
    const control = openControl(address(), name);
    const first = followChanges(control);
    await until('it is alone', async () => first.isAlone());
    expect(first.becomingKnown(), 'there is nobody who must know').toBeNull();
    const second = followChanges(control);
    await until('the second one is fresh', async () => second.isFresh());
    expect(second.isAlone()).toBe(false);
    const waiting = second.becomingKnown();
    expect(waiting).not.toBeNull();
    await waiting;
    expect(second.becomingKnown()).toBeNull();
    expect([first.isAlone(), second.isAlone()], 'by then the first one knows').toEqual([false, false]);
    await first.stop();
    await until('the second one is alone', async () => second.isAlone());
    const lost = async () => {
      await asAdmin((admin) =>
        admin.query(sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`),
      );
      return !second.isAlone();
    };
    await until('it is not while its session is lost', lost);
    await until('it is again', async () => second.isAlone());
    await second.stop();
    await control.end();
  });
});
