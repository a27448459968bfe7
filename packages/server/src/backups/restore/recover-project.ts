// One project's database as of a moment, beside the server that serves. Whatever happens, nothing of it is left.
import { rm } from 'node:fs/promises';
import { databaseOf } from '../../engine/provision.ts';
import { type RecoveryServer, removeRecovery } from '../../engine/recovery-server.ts';
import { errors } from '../../errors.ts';
import { sql } from '../../postgres/sql.ts';
import { doubtMs } from '../restorable.ts';
import type { Plan } from './plan.ts';
import { type Recovered, type Recovery, recover, StoredEnd } from './recover.ts';

type Request = Omit<Recovery, 'keep'> & {
  projectId: string;
  /** A branch: its database was copied from that of another project. */
  isCopy: boolean;
};

/**
 * Of a server that is lost: nothing can be written after the target, so the last commit that is stored may lie before it, and
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
    return await recover({ ...request, keep }, async (recovered) => {
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

/**
 * Whether the project's database is there, with its contents. Exchanging databases (a promoted branch, a restore in place)
 * gives it another oid, under which the backup has another database, or none: then all databases are needed.
 */
async function isThere(
  { plan, projectId }: Request,
  { database }: RecoveryServer,
  keep: ReadonlySet<number> | null,
): Promise<boolean> {
  const name = databaseOf(projectId);
  const [row] = await database.query<{ oid: number }>(
    sql`select oid::int8::float8 as oid from pg_database where datname = ${name}`,
  );
  if (!row) throw errors.restoreNotThere();
  const before = plan.tip.databases.find((known) => known.name === name);
  const isKnown = plan.tip.databases.some(({ oid }) => oid === row.oid);
  return keep === null || (before ? before.oid === row.oid : !isKnown);
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
