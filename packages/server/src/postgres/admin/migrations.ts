// Numbered, append-only migrations. Each runs once, in a transaction, under a lock. A changed or missing file is refused,
// and so is a database that a newer version has already migrated.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Sql, sql } from '../sql.ts';
import type { Queryable } from './database.ts';

export type Migration = { number: number; name: string; text: string; checksum: string };

export class MigrationError extends Error {
  override readonly name = 'MigrationError';
  /** A newer version has migrated the database: it has every migration of this version, and more. */
  readonly isNewer: boolean;

  constructor(message: string, { isNewer = false } = {}) {
    super(message);
    this.isNewer = isNewer;
  }
}

const root = fileURLToPath(new URL('../../../migrations/', import.meta.url));

export async function readMigrations(kind: 'control' | 'project' | 'guards'): Promise<Migration[]> {
  const folder = path.join(root, kind);
  const files = (await readdir(folder)).sort();
  return Promise.all(
    files.map(async (file, index) => {
      const [, digits, name] = /^(\d{4})_([a-z0-9_]+)\.sql$/.exec(file) ?? [];
      if (!name || Number(digits) !== index + 1) {
        throw new MigrationError(
          `${kind}/${file} should be ${String(index + 1).padStart(4, '0')}_<name>.sql.`,
        );
      }
      const text = await readFile(path.join(folder, file), 'utf8');
      // A checkout with CRLF line endings is the same migration.
      const checksum = createHash('sha256').update(text.replaceAll('\r\n', '\n')).digest('hex');
      return { number: index + 1, name, text, checksum };
    }),
  );
}

/** `session` must be one connection, with a lock against concurrent runs. Returns the numbers of the migrations applied now. */
export async function migrate(session: Queryable, migrations: readonly Migration[]): Promise<number[]> {
  await session.query(makeTable('migrations'));
  const pending = await findPending(session, migrations, 'migrations');
  for (const migration of pending) {
    await session.query(sql`begin`);
    try {
      await apply(session, migration, 'migrations');
      await session.query(sql`commit`);
    } catch (error) {
      await session.query(sql`rollback`).catch(() => {});
      throw error;
    }
  }
  return pending.map(({ number }) => number);
}

/** Applies all missing migrations in the caller's transaction: all of them or none. */
export async function migrateInside(
  transaction: Queryable,
  migrations: readonly Migration[],
  table: string,
): Promise<void> {
  await transaction.query(makeTable(table));
  // Against concurrent runs. Not an advisory lock: where advisory locks are not guarded, any role could hold it.
  await transaction.query(sql`lock table ${sql.id(table)} in share row exclusive mode`);
  for (const migration of await findPending(transaction, migrations, table)) {
    await apply(transaction, migration, table);
  }
}

function makeTable(table: string): Sql {
  return sql`
    create table if not exists ${sql.id(table)} (
      number integer primary key,
      name text not null,
      checksum text not null,
      applied_at timestamptz not null default now()
    )`;
}

async function findPending(
  session: Queryable,
  migrations: readonly Migration[],
  table: string,
): Promise<readonly Migration[]> {
  const applied = await session.query<{ number: number; checksum: string }>(
    sql`select number, checksum from ${sql.id(table)} order by number`,
  );
  check(applied, migrations);
  return migrations.slice(applied.length);
}

function check(applied: { number: number; checksum: string }[], migrations: readonly Migration[]): void {
  for (const { number, checksum } of applied) {
    const migration = migrations[number - 1];
    if (!migration) {
      throw new MigrationError(
        `The database has migration ${number}, which this version does not know: a newer Rowhouse used the database. Upgrade Rowhouse, or restore a backup.`,
        { isNewer: true },
      );
    }
    if (migration.checksum !== checksum) {
      throw new MigrationError(
        `Migration ${number} (${migration.name}) differs from the one that was applied to this database. Applied migrations never change: restore the file.`,
      );
    }
  }
}

async function apply(
  session: Queryable,
  { number, name, text, checksum }: Migration,
  table: string,
): Promise<void> {
  await session.query(sql.script(text));
  await session.query(
    sql`insert into ${sql.id(table)} (number, name, checksum) values (${number}, ${name}, ${checksum})`,
  );
}
