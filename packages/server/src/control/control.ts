// The control database, which holds the service's own tables. Created and migrated at start; several services may start
// at once.

import { type Address, type Database, openDatabase } from '../postgres/admin/database.ts';
import { migrate, readMigrations } from '../postgres/admin/migrations.ts';
import { sql } from '../postgres/sql.ts';
import { locks, takeLock } from './lock-names.ts';

export type Control = Database;

/** Creates the control database on the server at `address` if it is missing, and migrates it. */
export async function prepareControl(address: Address, database: string): Promise<void> {
  const maintenance = openDatabase(address, { max: 1 });
  try {
    await maintenance.session(async (session) => {
      await takeLock(session, locks.control);
      const [found] = await session.query(sql`select 1 from pg_database where datname = ${database}`);
      const name = sql.id(database);
      if (!found) {
        await session.query(
          sql`create database ${name} template template0 encoding 'UTF8' allow_connections false`,
        );
      }
      // Closed to PUBLIC before it accepts connections; at every start, because an earlier one may have been
      // interrupted.
      await session.query(sql`revoke all on database ${name} from public`);
      await session.query(sql`alter database ${name} with allow_connections true`);
    });
  } finally {
    await maintenance.end();
  }
  const control = openControl(address, database);
  try {
    const migrations = await readMigrations('control');
    await control.session(async (session) => {
      await takeLock(session, locks.migrations);
      await migrate(session, migrations);
    });
  } finally {
    await control.end();
  }
}

export function openControl(address: Address, database: string): Control {
  // All statements are short look-ups by key: one that takes longer is on a connection that no longer answers.
  return openDatabase({ ...address, database }, { max: 10, queryMs: 10_000, changeMs: 10_000 });
}
