// How much a dump may contain besides rows. PostgreSQL needs milliseconds for each object, so a small file with millions of them would
// keep an import busy for hours. Such a dump is refused while it is read, before any of it runs.
import { maxDumpObjects, maxDumpStatements } from '../../settings/limits/imports.ts';
import { BrokenDump } from './broken-dump.ts';

/** Called with each statement; throws when there are too many. */
export type CountContents = (statement: string) => void;

export function countContents(): CountContents {
  let [objects, statements] = [0, 0];
  return (statement) => {
    if (isRow.test(statement)) return;
    if (isObject.test(statement) && ++objects > maxDumpObjects) throw tooMany(maxDumpObjects, 'objects');
    if (++statements > maxDumpStatements) throw tooMany(maxDumpStatements, 'statements');
  };
}

/** For a dump of our own. */
export const countNothing: CountContents = () => {};

/** `count`: as the header of the dump says. */
export function tooManyEntries(count: number): BrokenDump {
  return new BrokenDump(`the dump has ${count} entries; at most ${maxDumpObjects} can be imported`, hint);
}

function tooMany(most: number, what: string): BrokenDump {
  return new BrokenDump(`the dump has more than ${most} ${what}, so it cannot be imported`, hint);
}

const hint = 'Dump a part of the database: pg_dump --schema=… or --table=….';
const isRow = /^insert\b/i;
const isObject = /^(?:create|select\s+(?:pg_catalog\s*\.\s*)?lo_(?:creat|create|from_bytea))\b/i;
