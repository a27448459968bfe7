// The wall behind the bound of an insert (insert-growth.ts): a group of inserts compares in its own transaction by how much the
// files of their table have really grown, and fails if that is more than all of them could add. So a wrong bound commits nothing.
export type GrowthCheck = Readonly<{
  /** Notes the size. */
  before: string;
  /** $1: the most that it may have grown. */
  after: string;
}>;

/** `indexes`: their oids. Maps are left out: the budget sets space aside for them. */
export function growthCheckOf(table: number, indexes: readonly number[]): GrowthCheck {
  const files = ['oid', 'reltoastrelid', ...indexes.map((oid) => `${oid}::pg_catalog.oid`)];
  // A table without long values has no file for them, and an index may be gone.
  const sizes = files.map((oid) => `coalesce(pg_catalog.pg_relation_size(${oid}), 0)`);
  const stored = `(select ${sizes.join(' operator(pg_catalog.+) ')} from pg_catalog.pg_class
    where oid operator(pg_catalog.=) ${table}::pg_catalog.oid)`;
  const setting = `rowhouse.stored_${table}`;
  return {
    before: `select pg_catalog.set_config('${setting}', ${stored}::pg_catalog.text, true)`,
    // With these arguments the function always fails. Of a transaction that has written nothing it says nothing.
    after: `select rowhouse.check_size(-1, -1, -1, 0)
      where (${stored} operator(pg_catalog.-) pg_catalog.current_setting('${setting}')::pg_catalog.int8)
        operator(pg_catalog.>) (${slackOf(indexes.length)} operator(pg_catalog.+) $1::pg_catalog.int8)`,
  };
}

/** For the levels above the leaves of an index, and for a table that is still empty: four pages each, in bytes. */
export function slackOf(indexes: number): number {
  return (indexes + 1) * 4 * 8192;
}
