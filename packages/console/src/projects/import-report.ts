// The result of an import job, which the API leaves open.
export type Skipped = { key: string; entry: string; reason: string; lost: boolean };
export type ImportReport = {
  tables: number;
  rows: number;
  users: number;
  skipped: Skipped[];
  /** With those that the list has no room for. */
  skippedCount: number;
};

export function readReport(result: Record<string, unknown> | null): ImportReport {
  const { tables, rows, users, skipped, skipped_count } = result ?? {};
  const list = Array.isArray(skipped)
    ? (skipped as { entry: unknown; reason: unknown; lost?: unknown }[])
    : [];
  return {
    tables: count(tables),
    rows: count(rows),
    users: count(users),
    skipped: list.map(({ entry, reason, lost }, index) => ({
      key: String(index),
      entry: String(entry),
      reason: String(reason),
      lost: lost === true,
    })),
    skippedCount: Math.max(count(skipped_count), list.length),
  };
}

const count = (value: unknown) => (typeof value === 'number' ? value : 0);
