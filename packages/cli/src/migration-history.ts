// What was applied to a project: a table in the project itself. Each migration and its entry are one transaction, under a
// lock that all runs of `rowhouse migrate` share.
import type { BatchResponse, RunBatch } from '@rowhouse/api';
import { splitStatements } from '@rowhouse/api/statements';
import { type ApiOptions, callApi } from './api.ts';
import { Failure, failure } from './failure.ts';
import type { Migration } from './migration-files.ts';
import { maxStatements, withPlace } from './sql-run.ts';

export type Applied = { version: string; name: string; checksum: string; applied_at: string };
export type MigrateOptions = ApiOptions & { timeout?: number };

const table = 'rowhouse_migrations.applied';
/** The lock belongs to the transaction, so a process that dies leaves none behind. Readers do not wait for it. */
const lock = { query: `do $$ begin lock table ${table} in share row exclusive mode; end $$` };
const create = [
  'create schema if not exists rowhouse_migrations',
  `create table if not exists ${table} (version numeric primary key, name text not null, checksum text not null,
     applied_at timestamptz not null default pg_catalog.now())`,
].map((query) => ({ query }));
const maxTimeoutMs = 600_000;

export async function readApplied(slug: string, options: MigrateOptions): Promise<Applied[]> {
  const exists = `select pg_catalog.to_regclass('${table}') is not null as is`;
  const [found] = await batch(slug, [{ query: exists }], options, { read_only: true });
  if (found?.rows[0]?.is !== true) return [];
  const list = `select version::text, name, checksum, applied_at from ${table} order by version`;
  const [all] = await batch(slug, [{ query: list }], options, { read_only: true });
  return (all?.rows ?? []) as Applied[];
}

/** false: another run has applied it meanwhile. */
export async function apply(slug: string, migration: Migration, options: MigrateOptions): Promise<boolean> {
  const statements = splitStatements(migration.text).map(({ text }) => ({ query: text }));
  await prepare(slug, options);
  const before = [lock, entryOf(migration)];
  if (!migration.isInTransaction) return applyOneByOne(slug, migration, statements, before, options);
  if (before.length + statements.length > maxStatements)
    throw failure(
      'invalid_request',
      `${migration.file} has ${statements.length} statements. At most ${maxStatements - before.length} run in one transaction.`,
      'Split it, or insert many rows with one statement.',
    );
  try {
    await batch(slug, [...before, ...statements], options);
    return true;
  } catch (error) {
    if (isEntryTaken(error, before.length)) return false;
    throw withPlace(error, { text: migration.text, name: migration.file }, before.length);
  }
}

/** For statements such as CREATE INDEX CONCURRENTLY. The entry comes last: what failed is tried again. */
async function applyOneByOne(
  slug: string,
  { file, text }: Migration,
  statements: { query: string }[],
  entry: { query: string; params?: unknown[] }[],
  options: MigrateOptions,
): Promise<boolean> {
  for (const [index, { query }] of statements.entries()) {
    const body = { query, ...timeoutOf(options) };
    await callApi(options, 'POST', ['projects', slug, 'query'], { body, timeoutMs: maxTimeoutMs }).catch(
      (error: unknown) => {
        if (error instanceof Failure) {
          const details = { ...(error.body.error.details as object | undefined), statement: index };
          throw withPlace(
            new Failure({ ...error.body, error: { ...error.body.error, details } }),
            { text, name: file },
            0,
          );
        }
        throw error;
      },
    );
  }
  await batch(slug, entry, options);
  return true;
}

/** Two at once can collide in the catalog of PostgreSQL; then the table is there. */
async function prepare(slug: string, options: MigrateOptions): Promise<void> {
  const tryOnce = () => batch(slug, create, options);
  await tryOnce().catch((error: unknown) => {
    if (error instanceof Failure && error.body.error.code === 'conflict') return tryOnce();
    throw error;
  });
}

/** Notes that a migration was applied, without running it; or that it was not. */
export async function mark(
  slug: string,
  migration: Migration,
  isApplied: boolean,
  options: MigrateOptions,
): Promise<void> {
  const remove = { query: `delete from ${table} where version = $1::numeric`, params: [migration.version] };
  await prepare(slug, options);
  await batch(slug, [lock, remove, ...(isApplied ? [entryOf(migration)] : [])], options);
}

/** Runs them in one transaction that is undone. Only for those that can run in one. */
export async function tryOut(
  slug: string,
  pending: readonly Migration[],
  options: MigrateOptions,
): Promise<void> {
  const texts = pending.flatMap(({ text, file, isInTransaction }) => {
    if (!isInTransaction)
      throw failure(
        'invalid_request',
        `${file} runs outside of a transaction.`,
        'Try it with an account key.',
      );
    return splitStatements(text).map((statement) => ({ query: statement.text }));
  });
  // A count that cannot be right rolls everything back.
  const undo = { query: 'select 1', expect_affected: 2 };
  await batch(slug, [...texts, undo], options).then(
    () => {
      throw failure('internal_error', 'The trial was not rolled back.');
    },
    (error: unknown) => {
      const at = error instanceof Failure && (error.body.error.details as { statement?: number })?.statement;
      if (at !== texts.length) throw locate(error, pending);
    },
  );
}

function locate(error: unknown, pending: readonly Migration[]): unknown {
  if (!(error instanceof Failure)) return error;
  let skipped = 0;
  const at = (error.body.error.details as { statement?: number } | undefined)?.statement ?? 0;
  for (const { text, file } of pending) {
    const count = splitStatements(text).length;
    if (at < skipped + count) return withPlace(error, { text, name: file }, skipped);
    skipped += count;
  }
  return error;
}

function entryOf({ version, name, checksum }: Migration) {
  const query = `insert into ${table} (version, name, checksum) values ($1::numeric, $2, $3)`;
  return { query, params: [version, name, checksum] };
}

/** The entry is the last statement before those of the migration. */
function isEntryTaken(error: unknown, count: number): boolean {
  if (!(error instanceof Failure)) return false;
  const { code, details, sql } = error.body.error;
  const isEntry = (details as { statement?: number } | undefined)?.statement === count - 1;
  return code === 'conflict' && isEntry && sql?.state === '23505';
}

async function batch(
  slug: string,
  statements: RunBatch['statements'],
  options: MigrateOptions,
  more: Partial<RunBatch> = {},
): Promise<BatchResponse['results']> {
  const body: RunBatch = { statements, ...more, ...timeoutOf(options) };
  const path = ['projects', slug, 'batch'];
  return (await callApi<BatchResponse>(options, 'POST', path, { body, timeoutMs: maxTimeoutMs })).results;
}

const timeoutOf = ({ timeout }: MigrateOptions) =>
  timeout === undefined ? {} : { timeout_ms: timeout * 1000 };
