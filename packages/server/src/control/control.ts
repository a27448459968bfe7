// The control database: the service's own tables. Made and migrated at start; several services may start at once.
import { type Address, type Database, isState, openDatabase } from '../postgres/database.ts';
import { migrate, readMigrations } from '../postgres/migrations.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';

export type Control = Database;

/** Makes the control database on the server at `address` where it is missing, and brings it up to date. */
export async function prepareControl(address: Address, database: string): Promise<void> {
  const maintenance = openDatabase(address, { max: 1 });
  try {
    const [found] = await maintenance.query(sql`select 1 from pg_database where datname = ${database}`);
    if (!found) await createControl(maintenance, database);
  } finally {
    await maintenance.end();
  }
  const control = openControl(address, database);
  try {
    const migrations = await readMigrations('control');
    await control.session((session) => migrate(session, migrations));
  } finally {
    await control.end();
  }
}

export function openControl(address: Address, database: string): Control {
  return openDatabase({ ...address, database }, { max: 10 });
}

async function createControl(maintenance: Database, database: string): Promise<void> {
  try {
    await maintenance.change(sql`create database ${sql.id(database)} template template0 encoding 'UTF8'`);
    await maintenance.change(sql`revoke all on database ${sql.id(database)} from public`);
  } catch (error) {
    // Another service made it in the same moment: PostgreSQL says so by either of these.
    if (!isState(error, sqlstate.duplicateDatabase) && !isState(error, sqlstate.uniqueViolation)) throw error;
  }
}
