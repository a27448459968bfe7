// What every project database holds of ours: the project migrations, plus guards that only a superuser can set. The same
// code puts it into the template that new databases are made from and into those that older versions have made.
import { createHash } from 'node:crypto';
import { type Address, openDatabase } from '../postgres/database.ts';
import { type Migration, migrateInside, readMigrations } from '../postgres/migrations.ts';
import { sql } from '../postgres/sql.ts';

export type Contents = Readonly<{
  migrations: readonly Migration[];
  guards: readonly Migration[];
  /** Whether our role may set the guards. */
  guarded: boolean;
}>;

export async function readContents(guarded: boolean): Promise<Contents> {
  return { migrations: await readMigrations('project'), guards: await readMigrations('guards'), guarded };
}

export function checksumOf({ migrations, guards, guarded }: Contents): string {
  const content = [migrations, guarded ? guards : []].map((list) => list.map(({ checksum }) => checksum));
  return createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, 16);
}

/**
 * Puts in what is missing, in one transaction: the database has all of it afterwards, or is as it was.
 *
 * Our role does this inside a database that a hostile project may fill. What runs is text of ours; it touches objects of
 * ours; and names are looked up in our schema and PostgreSQL's alone, from the first statement on. Projects can put
 * nothing into these, make no event triggers, and make no casts between types that are not theirs. A lock that a
 * project holds ends this with an error after lock_timeout.
 */
export async function putContents(address: Address, contents: Contents): Promise<void> {
  const database = openDatabase(address, { max: 1, searchPath: 'rowhouse,pg_catalog,pg_temp' });
  try {
    await database.transaction(async (transaction) => {
      await transaction.query(sql`create schema if not exists rowhouse`);
      await migrateInside(transaction, contents.migrations, 'migrations');
      if (contents.guarded) await migrateInside(transaction, contents.guards, 'guards');
    });
  } finally {
    await database.end();
  }
}
