// The files of migrations: plain SQL, named <version>_<name>.sql, applied in the order of their versions.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { failure } from './failure.ts';
import { readSqlFile } from './sql-run.ts';

export type Migration = {
  version: string;
  name: string;
  file: string;
  text: string;
  /** SHA-256 of the text; the kind of line ends does not count. */
  checksum: string;
  /** A comment `-- rowhouse: no transaction` on the first line. */
  isInTransaction: boolean;
};

const form = /^(\d{1,20})_([\w-]+)\.sql$/;

export function readMigrations(folder: string): Migration[] {
  let names: string[];
  try {
    // `rowhouse seed` runs seed.sql.
    names = readdirSync(folder).filter((name) => name.endsWith('.sql') && name !== 'seed.sql');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT')
      throw failure('not_readable', `The folder cannot be read: ${(error as Error).message}.`);
    throw failure(
      'not_readable',
      `There is no folder "${folder}".`,
      'Make the first migration: rowhouse migrate new <name>. Or name the folder with --dir.',
    );
  }
  const found = names.map((name) => readMigration(folder, name)).sort(byVersion);
  const twin = found.find(({ version }, index) => found[index + 1]?.version === version);
  if (twin)
    throw failure(
      'invalid_request',
      `Two migrations have the version ${twin.version}.`,
      'Rename the one that was not applied.',
    );
  return found;
}

/** Returns its path. Its version is the time, or the next one after the newest migration: it runs after all others. */
export function newMigration(folder: string, title: string, text: string, now = new Date()): string {
  const name = title
    .trim()
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '_')
    .replace(/^_+|_+$/g, '');
  if (name === '') throw failure('invalid_request', `"${title}" has no letter or digit for a file name.`);
  const time = BigInt(now.toISOString().replace(/\D/g, '').slice(0, 14));
  const newest = existsSync(folder) ? (readMigrations(folder).at(-1)?.version ?? '0') : '0';
  const version = time > BigInt(newest) ? time : BigInt(newest) + 1n;
  const file = path.join(folder, `${version}_${name}.sql`);
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, text, { flag: 'wx' });
  } catch (error) {
    throw failure('not_written', `Cannot write ${file}: ${(error as Error).message}.`);
  }
  return file;
}

export function byVersion(a: { version: string }, b: { version: string }): number {
  const [one, two] = [BigInt(a.version), BigInt(b.version)];
  return one < two ? -1 : one > two ? 1 : 0;
}

function readMigration(folder: string, file: string): Migration {
  const [, version, name] = form.exec(file) ?? [];
  if (!version || !name)
    throw failure(
      'invalid_request',
      `"${file}" is not the name of a migration.`,
      'Names are <digits>_<name>.sql, such as 20270131090000_create_teas.sql.',
    );
  const text = readSqlFile(path.join(folder, file));
  const checksum = createHash('sha256').update(text.replaceAll('\r\n', '\n')).digest('hex');
  const isInTransaction = !/^\s*--\s*rowhouse:\s*no[- ]transaction\b/i.test(text);
  return {
    version: String(BigInt(version)),
    name,
    file: path.join(folder, file),
    text,
    checksum,
    isInTransaction,
  };
}
