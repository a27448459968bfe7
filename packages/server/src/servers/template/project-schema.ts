// Rowhouse's own objects in every project database: the project migrations, and guards that only a superuser can set. The
// same code installs them in the template of new databases and in databases created by older versions.
import { createHash } from 'node:crypto';
import { type Address, openDatabase } from '../../postgres/admin/database.ts';
import { type Migration, migrateInside, readMigrations } from '../../postgres/admin/migrations.ts';
import { sql } from '../../postgres/sql.ts';

export type ProjectSchema = Readonly<{
  migrations: readonly Migration[];
  guards: readonly Migration[];
  /** Whether our role may install the guards. */
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
 * Installs what is missing, in one transaction: all of it, or nothing.
 *
 * Our role does this inside a database whose contents a hostile project may control. Only our own SQL runs; it touches only
 * our own objects; and from the first statement on, names are resolved only in our schema and PostgreSQL's. Projects can add
 * nothing to these schemas, and can create neither event triggers nor casts between types that they do not own. If a project
 * holds a lock, this fails after lock_timeout.
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
