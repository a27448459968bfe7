// Inserts the rows of a JSON array with COPY, which takes PostgreSQL a third of the time of an insert from JSON. For requests
// that want no rows back, into tables on which no code of the project runs: there, COPY does the same as an insert.

import { RowhouseError } from '../../errors/errors.ts';
import { closing, type Growth, ownSize, withHeadroom } from '../../query/admission.ts';
import type { Reader } from '../../query/exchange/reader.ts';
import { sqlFailure } from '../../query/exchange/sql-failure.ts';
import type { QueryDeps } from '../../query/run.ts';
import { withSession } from '../../query/sessions/exclusive.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import type { Table } from '../catalog/catalog.ts';
import { guard, id, nameOf } from '../sql/expressions.ts';
import type { ArrayRows } from './array-rows.ts';
import { leavesOf } from './import.ts';

type CopiedArray = Readonly<{
  project: ProjectLogin;
  table: Table;
  rows: ArrayRows;
  reader: Reader;
  timeoutMs: number;
}>;

const growth: Growth = {
  canRepeat: true,
  canCommit: false,
  alwaysMeasured: false,
  changes: true,
  isUndone: false,
  canShrink: false,
  adds: true,
  isHarmless: false,
};

export function canCopyArray({ kind, isPlainToWrite }: Table, { actingUser }: ProjectLogin): boolean {
  return kind === 'table' && isPlainToWrite && actingUser === undefined;
}

/**
 * Returns the number of rows. null: PostgreSQL refused them, or the table has changed. Then nothing has happened, and the
 * ordinary insert finds out the reason.
 */
export async function copyArray(
  deps: QueryDeps,
  { project, table, rows, reader, timeoutMs }: CopiedArray,
): Promise<number | null> {
  const leaves = leavesOf(table);
  const use = leaves === 'rows' ? 'any' : 'plain';
  const list = rows.columns.map(({ name }) => id(name)).join(', ');
  const copying = withHeadroom(deps.admission, { project, growth, reader }, (measure, supervise) =>
    withSession(deps, project, { reader, timeoutMs, use, supervise }, async (exclusive) => {
      const own = await ownSize(exclusive, measure);
      const input = {
        // The lock is the one that COPY takes anyway. Behind it, a change of the table makes PostgreSQL plan the guard again.
        before: [`lock table only ${nameOf(table)} in row exclusive mode`],
        guard: `select from only ${nameOf(table)} where ${guard(table)} limit 0`,
        text: `copy ${nameOf(table)} (${list}) from stdin`,
        after: closing(measure, own),
        source: rows.pieces,
        explain: sqlFailure,
      };
      return exclusive.copy(input, leaves);
    }),
  );
  return copying.catch((error) => {
    if (wasRefused(error)) return null;
    throw error;
  });
}

/** SQLSTATE classes about values, constraints and names, or the guard's. An insert would fail in the same way. */
const refusals = /^(?:22|23|42|0A|3F|RH001)/;

function wasRefused(error: unknown): boolean {
  return error instanceof RowhouseError && refusals.test(error.sql?.state ?? '');
}
