// Two processes of an installation, of which one does the background work.
import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import type { Database } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { address, asAdmin, newControlName, removeTestService, until } from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder } from '../support/process.ts';

it('the background work moves to another process within seconds, if its process hangs or dies', async () => {
  const { user, password, host, port } = address();
  const controlDatabase = newControlName();
  const env = {
    ROWHOUSE_DATABASE_URL: `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/postgres`,
    ROWHOUSE_CONTROL_DATABASE: controlDatabase,
    ROWHOUSE_MASTER_KEY: randomBytes(32).toString('hex'),
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    ROWHOUSE_SPARES: '0',
  };
  const inControl = <T>(run: (control: Database) => Promise<T>): Promise<T> =>
    asAdmin(run, { ...address(), database: controlDatabase });
  const first = await launch({ ...env, ROWHOUSE_DATA: newDataFolder() });
  const second = await launch({ ...env, ROWHOUSE_DATA: newDataFolder() });
  const installation = await inControl((control) =>
    control.query<{ value: string }>(sql`select value from settings where name = 'installation'`),
  );

  /** The session that holds the role, or undefined. */
  const holder = async () => {
    const rows = await inControl((control) =>
      control.query<{ pid: number }>(sql`
        select pid from pg_locks
        where locktype = 'advisory' and granted and objid = hashtext('rowhouse keeper')::oid
          and database = (select oid from pg_database where datname = current_database())`),
    );
    return rows[0]?.pid;
  };
  const moved = async (from: number | undefined) => {
    const startedAt = performance.now();
    const to = await until('the role has moved', async () => {
      const pid = await holder();
      return pid !== from && pid;
    });
    // 3 s on a machine with time for it.
    expect(performance.now() - startedAt).toBeLessThan(6_000);
    return to;
  };

  // Both were started: the first one has it.
  const held = await until('a process has the role', holder);
  first.child.kill('SIGSTOP');
  const next = await moved(held);
  first.child.kill('SIGCONT');
  await until('the first process answers again', async () => (await fetch(`${first.url}/healthz`)).ok);
  expect(await holder()).toBe(next);
  second.child.kill('SIGKILL');
  await moved(next);
  expect(await first.stop()).toBe(0);
  await removeTestService(controlDatabase, installation[0]?.value ?? '');
});
