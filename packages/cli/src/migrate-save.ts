// The SQL of `migrate diff` as migrations that `migrate up` can apply.
import { splitStatements } from '@rowhouse/api/statements';
import { newMigration } from './migration-files.ts';
import { maxStatements } from './sql-run.ts';

/** With the lock and the entry of the migration, and some more. */
const most = maxStatements - 10;
const isNewValue = (statement: string) => /^alter type .* add value /i.test(statement);

/** Returns the paths, in the order in which they are applied. */
export function saveMigrations(folder: string, title: string, statements: readonly string[]): string[] {
  return partsOf(statements).map((part) => newMigration(folder, title, textOf(part)));
}

export const textOf = (statements: readonly string[]) =>
  `${statements.map((one) => (one.startsWith('--') ? one : `${one};`)).join('\n\n')}\n`;

/** A transaction cannot use a value that it adds to an enum, so values are added before. Each part is one transaction. */
function partsOf(statements: readonly string[]): string[][] {
  const isOther = (statement: string) => !isNewValue(statement);
  return [...inParts(statements.filter(isNewValue)), ...inParts(statements.filter(isOther))];
}

function inParts(statements: readonly string[]): string[][] {
  const parts: string[][] = [];
  let count = 0;
  for (const statement of statements) {
    const size = splitStatements(statement).length;
    if (parts.length === 0 || count + size > most) {
      parts.push([]);
      count = 0;
    }
    count += size;
    parts.at(-1)?.push(statement);
  }
  return parts;
}
