// One project's database as of a moment, beside the server that serves. Whatever happens, nothing of it is left.
import { rm } from 'node:fs/promises';
import { errors } from '../../errors/errors.ts';
import type { Database } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { databaseOf } from '../../servers/databases/names.ts';
import { type RecoveryServer, removeRecovery } from '../../servers/embedded/recovery-server.ts';
import { doubtMs } from '../restorable.ts';
import type { Plan } from './plan.ts';
import { type Recovered, type Recovery, recover, StoredEnd } from './recover.ts';

type Request = Omit<Recovery, 'keep'> & {
  projectId: string;
  /** A branch: its database was copied from that of another project. */
  isCopy: boolean;
};

/**
 * On a lost server, nothing can be written after the target, so the last commit that is stored may lie before it, and
 * then replaying everything gives the same state. It is tried first where that is likely.
 */
export async function recoverLast<T>(
  request: Request & { target: Date },
  use: (recovered: Recovered) => Promise<T>,
): Promise<T> {
  const { target, plan } = request;
  const isNearEnd = target.getTime() > plan.storedAt.getTime() - doubtMs;
  const toEnd = () =>
    recoverProject({ ...request, target: null }, (recovered) => {
      if (recovered.lastCommit && recovered.lastCommit > target) throw new BeyondTarget();
      return use(recovered);
    });
  const toTarget = () => recoverProject({ ...request, isLast: true }, use);
  const [first, second] = isNearEnd ? [toEnd, toTarget] : [toTarget, toEnd];
  return first().catch((error: unknown) => {
    if (error instanceof BeyondTarget || error instanceof StoredEnd) return second();
    throw error;
  });
}

class BeyondTarget extends Error {}

export async function recoverProject<T>(
  request: Request,
  use: (recovered: Recovered) => Promise<T>,
): Promise<T> {
  const { plan, projectId, isCopy } = request;
  const isOlder = plan.tip.databases.some(({ name }) => name === databaseOf(projectId));
  // A copy that was made after the backup needs the database that it was copied from.
  if (isOlder || !isCopy) {
    const narrow = await tryWith(request, databasesToKeep(plan, projectId), use);
    if (narrow) return narrow.result;
  }
  const all = await tryWith(request, null, use);
  if (!all) throw new Error('A restore with all databases found none.');
  return all.result;
}

/** null: other databases are needed. */
async function tryWith<T>(
  request: Request,
  keep: ReadonlySet<number> | null,
  use: (recovered: Recovered) => Promise<T>,
): Promise<{ result: T } | null> {
  const { folder } = request.workshop;
  await rm(folder, { recursive: true, force: true });
  try {
    // After an exchange, replaying the rest would be in vain.
    const isWorthwhile = async (database: Database) => {
      const oid = await oidOf(request, database);
      return oid === null || hasContents(request, oid, keep);
    };
    return await recover({ ...request, keep, ...(keep && { isWorthwhile }) }, async (recovered) => {
      if (!(await isThere(request, recovered.server, keep))) return null;
      await recovered.server.open();
      return { result: await use(recovered) };
    });
  } finally {
    // A server that hangs may have left processes.
    await removeRecovery(folder);
    await rm(`${folder}.log`, { force: true });
  }
}

async function isThere(
  request: Request,
  { database }: RecoveryServer,
  keep: ReadonlySet<number> | null,
): Promise<boolean> {
  const oid = await oidOf(request, database);
  if (oid === null) throw errors.restoreNotThere();
  return hasContents(request, oid, keep);
}

/** null: the project is not there yet, or not any more. */
async function oidOf({ projectId }: Request, database: Database): Promise<number | null> {
  const [row] = await database.query<{ oid: number }>(
    sql`select oid::int8::float8 as oid from pg_database where datname = ${databaseOf(projectId)}`,
  );
  return row?.oid ?? null;
}

/**
 * Whether the project's database has its contents. Exchanging databases (a promoted branch, a restore in place) gives it another
 * oid, under which the backup has another database, or none: then all databases are needed.
 */
function hasContents({ plan, projectId }: Request, oid: number, keep: ReadonlySet<number> | null): boolean {
  const before = plan.tip.databases.find(({ name }) => name === databaseOf(projectId));
  const isKnown = plan.tip.databases.some((known) => known.oid === oid);
  return keep === null || (before ? before.oid === oid : !isKnown);
}

export function databasesToKeep(plan: Plan, projectId: string): ReadonlySet<number> {
  return databasesNamed(plan, databaseOf(projectId));
}

/** PostgreSQL's own, the templates of projects, and the one with this name. */
export function databasesNamed(plan: Plan, wanted: string): ReadonlySet<number> {
  const isKeptName = (name: string) =>
    /^(postgres|template[01]|rowhouse_t_.*)$/.test(name) || name === wanted;
  return new Set(plan.tip.databases.filter(({ name }) => isKeptName(name)).map(({ oid }) => oid));
}
