// Rows that somebody else changed after a person had read them. PostgreSQL says which, by the same comparisons that the changes
// make: what is found here would be refused, and nothing else.
import type { BatchResponse } from '@rowhouse/api';
import type { Table } from '../api/queries.ts';
import { api, path } from '../api/request.ts';
import { type Difference, isEqual, isNew, type RowKey, type Staged, type Value } from '../grid/staged.ts';
import { Digest, keyConditions, nameOf, otherColumns, quoteName, sameConditions } from './change-sql.ts';
import { isCut, readRow } from './long-values.ts';

export type Conflict = Difference & {
  /** The row is as it was seen, and PostgreSQL did not change it: a policy or a trigger prevents it. */
  isRefused?: boolean;
};
type Place = { slug: string; table: Table };
type Values = Record<string, Value>;
type Check = { key: RowKey; before: Values; columns: readonly string[] };

/** The limit of a batch. */
const statementsMax = 1_000;
/** At once. */
const readsMax = 20;

/** `failedAt`: the index of the statement that changed no row. */
export async function findConflicts(place: Place, staged: Staged, failedAt?: number): Promise<Conflict[]> {
  const found: Conflict[] = [];
  const checks = checksOf(place.table, staged);
  for (const some of slices(checks, statementsMax)) {
    const statements = some.map((check) => checkStatement(place.table, check));
    const { results } = await api.post<BatchResponse>(path`projects/${place.slug}/batch`, { statements });
    const differing = some.flatMap((check, index) => {
      const row = results[index]?.rows[0] as Record<string, unknown> | undefined;
      const columns = check.columns.filter((_, at) => row?.[`same_${at}`] !== true);
      const digests = check.columns.map((_, at) => row?.[`digest_${at}`] as string | null);
      return row && columns.length === 0 ? [] : [{ check, columns, digests }];
    });
    for (const few of slices(differing, readsMax))
      found.push(...(await Promise.all(few.map((one) => read(place, one)))));
  }
  const failed = failedAt === undefined ? undefined : changedKeys(staged)[failedAt];
  if (failed === undefined || found.some(({ key }) => key === failed)) return found;
  return [...found, { key: failed, columns: [], theirs: {}, expected: {}, isRefused: true }];
}

/** What a person can decide about it. A value that was read only in part cannot be inserted again. */
export function choicesFor(table: Table, staged: Staged, { key, theirs, isRefused }: Conflict) {
  const change = staged.changed.get(key);
  if (isRefused || isNew(key) || (!theirs && !change)) return ['drop'] as const;
  const isHeld = (value: Value, type: string) => !isCut(value, type) && !(value instanceof Digest);
  const isWhole = table.columns.every(({ name, type }) => isHeld(change?.before[name], type));
  if (theirs) return ['theirs', 'mine', 'drop'] as const;
  return isWhole ? (['mine', 'drop'] as const) : (['drop'] as const);
}

/** The values to insert again for a deleted row, without the columns that PostgreSQL fills in itself. */
export function rowAgain(table: Table, staged: Staged, key: RowKey): Values {
  const change = staged.changed.get(key);
  const kept = table.columns.filter(({ identity, generated }) => identity !== 'always' && !generated);
  return Object.fromEntries(
    kept.map(({ name }) => [name, change && name in change.set ? change.set[name] : change?.before[name]]),
  );
}

/** The keys of the rows, in the order of the statements that change them. */
const changedKeys = ({ deleted, changed, inserted }: Staged): RowKey[] => [
  ...deleted.keys(),
  ...changed.keys(),
  ...inserted.keys(),
];

function checksOf(table: Table, { changed, deleted }: Staged): Check[] {
  return [
    ...[...deleted].map(([key, before]) => ({ key, before, columns: otherColumns(table, before) })),
    ...[...changed].map(([key, { before, set }]) => ({
      key,
      before,
      columns: Object.keys(set).filter((column) => column in before),
    })),
  ];
}

/** Whether each column is still as it was seen, and a digest of what it is now. */
function checkStatement(table: Table, { before, columns }: Check) {
  const params: Value[] = [];
  const place = (value: Value) => `$${params.push(value)}`;
  const list = sameConditions(table, before, [...columns], place).flatMap((same, index) => [
    `(${same}) is true as same_${index}`,
    `md5(${quoteName(columns[index] ?? '')}::text) as digest_${index}`,
  ]);
  const where = keyConditions(table, before, place).join(' and ');
  return { query: `select ${['1', ...list].join(', ')} from ${nameOf(table)} where ${where}`, params };
}

type Differing = { check: Check; columns: readonly string[]; digests: readonly (string | null)[] };

async function read(place: Place, { check, columns, digests }: Differing): Promise<Conflict> {
  const { key, before } = check;
  const theirs = await readRow(place, { key, values: before });
  const expected = { ...theirs };
  for (const column of columns) {
    const digest = digests[check.columns.indexOf(column)];
    const isInexact = before[column] instanceof Digest || isEqual(before[column], theirs?.[column]);
    // The page reads the same value again, so only a digest tells what it is.
    if (theirs && digest && isInexact) expected[column] = new Digest(digest);
  }
  return { key, columns, theirs, expected };
}

const slices = <T>(items: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, index) =>
    items.slice(index * size, (index + 1) * size),
  );
