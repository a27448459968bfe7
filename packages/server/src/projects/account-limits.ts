// The limits of an account: how many projects it may have, and the sum of their limits. Checked in the transaction that adds to
// them, with the account's row locked, so that requests at the same time cannot exceed them together.
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import type { Caller } from '../keys/caller.ts';
import { holdIssuer } from '../keys/issuer.ts';
import type { Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';

/** What a change adds: projects, and megabytes of limit_mb. */
export type Added = Readonly<{ projects: number; mb: number }>;
/** What depends on rows that others change: read once the account's row is locked. */
type ReadAdded = (transaction: Queryable) => Promise<Added>;

type Limits = { maxProjects: number | null; maxTotalMb: number | null };

/**
 * Runs `act` alone if there are neither limits nor an issuer, and otherwise in a transaction that checks them. An account that was
 * deleted or suspended meanwhile gets nothing more. `issuer`: who gets to know a new key. One who was removed from the account, or
 * whose key was revoked, since the request began gets none.
 */
export async function withinLimits<T>(
  control: Control,
  accountId: string,
  added: Added | ReadAdded,
  act: (database: Pick<Control, 'change'>, issuedBy: string | null) => Promise<T>,
  issuer: Caller | null = null,
): Promise<T> {
  const [limits] = await control.query<Limits & { isDeleted: boolean; suspendedBecause: string | null }>(sql`
    select max_projects as "maxProjects", max_total_mb::float8 as "maxTotalMb", deleted_at is not null as "isDeleted",
           suspended_because as "suspendedBecause"
    from accounts where id = ${accountId}`);
  if (limits?.isDeleted) throw errors.accountNotFound(accountId);
  if (limits?.suspendedBecause != null) throw errors.accountSuspended(limits.suspendedBecause);
  const isLimited = limits && (limits.maxProjects !== null || limits.maxTotalMb !== null);
  if (!isLimited && !issuer) return act(control, null);
  return control.transaction(async (transaction) => {
    // First: it locks the account's row more strongly. The other way round, two requests would wait for each other.
    if (isLimited) await checkLimits(transaction, accountId, added);
    const issuedBy = issuer && (await holdIssuer(transaction, issuer));
    return act({ change: (statement) => transaction.query(statement) }, issuedBy);
  });
}

async function checkLimits(
  transaction: Queryable,
  accountId: string,
  given: Added | ReadAdded,
): Promise<void> {
  const [limits] = await transaction.query<Limits>(sql`
    select max_projects as "maxProjects", max_total_mb::float8 as "maxTotalMb" from accounts
    where id = ${accountId} for update`);
  const added = typeof given === 'function' ? await given(transaction) : given;
  // A statement of its own: its snapshot is taken after the lock.
  const [used] = await transaction.query<{ projects: number; mb: number }>(sql`
    select count(*)::int as projects, coalesce(sum(limit_mb), 0)::float8 as mb
    from projects where account_id = ${accountId} and deleted_at is null`);
  if (!limits || !used) return;
  const { maxProjects, maxTotalMb } = limits;
  if (added.projects > 0 && maxProjects !== null && used.projects + added.projects > maxProjects)
    throw errors.accountLimit(`The account has ${used.projects} of ${maxProjects} projects.`);
  if (added.mb > 0 && maxTotalMb !== null && used.mb + added.mb > maxTotalMb) {
    throw errors.accountLimit(
      `The projects of the account have ${used.mb} of ${maxTotalMb} MB of limit_mb together; ${added.mb} MB more do not fit.`,
    );
  }
}
