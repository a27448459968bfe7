// What every project database holds of ours: the project migrations, plus guards that only a superuser can set. The same
// code puts it into the template that new databases are made from and into those that older versions have made.
import { createHash } from 'node:crypto';
import { type Address, openDatabase } from '../postgres/database.ts';
import { type Migration, migrateInside, readMigrations } from '../postgres/migrations.ts';
import { sql } from '../postgres/sql.ts';

export type ProjectSchema = Readonly<{
  migrations: readonly Migration[];
  guards: readonly Migration[];
  /** Whether our role may set the guards. */
  guarded: boolean;
}>;

export async function readProjectSchema(guarded: boolean): Promise<ProjectSchema> {
  return { migrations: await readMigrations('project'), guards: await readMigrations('guards'), guarded };
}

export function checksumOf({ migrations, guards, guarded }: ProjectSchema): string {
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
export async function putProjectSchema(address: Address, projectSchema: ProjectSchema): Promise<void> {
  const database = openDatabase(address, { max: 1, searchPath: 'rowhouse,pg_catalog,pg_temp' });
  try {
    await database.transaction(async (transaction) => {
      await transaction.query(sql`create schema if not exists rowhouse`);
      await migrateInside(transaction, projectSchema.migrations, 'migrations');
      if (projectSchema.guarded) await migrateInside(transaction, projectSchema.guards, 'guards');
    });
  } finally {
    await database.end();
  }
}
