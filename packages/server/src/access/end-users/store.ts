// Runs statements on users in the project's database, as the role that owns them. Each statement returns one JSON
// value.

import { errors, RowhouseError } from '../../errors/errors.ts';
import { explainState } from '../../postgres/admin/resource-errors.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { ownSize, withHeadroom } from '../../query/admission.ts';
import { fateOf, isOverLimit, wasRaised } from '../../query/exchange/failures.ts';
import { noReader } from '../../query/exchange/reader.ts';
import { parseJsonText } from '../../query/json/json-text.ts';
import { lookUp } from '../../query/look-up.ts';
import type { QueryDeps } from '../../query/run.ts';
import { withSession } from '../../query/sessions/exclusive.ts';
import { sizeCheck } from '../../quotas/size-check.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import type { AuthContext } from './auth-context.ts';

/** Where the users of a project are. */
export type Place = Pick<AuthContext, 'projectId' | 'serverId' | 'accountId'>;

export type UserStore = {
  /** Returns the statement's value, or null. `lock` runs before it, in the same transaction. */
  ask<T>(
    context: Place,
    text: string,
    params: readonly (string | null)[],
    lock?: UserLock,
  ): Promise<T | null>;
  /**
   * The same for statements that make the project grow: measured before the commit, like the project's own statements.
   */
  add<T>(
    context: AuthContext,
    text: string,
    params: readonly (string | null)[],
    lock?: UserLock,
  ): Promise<T | null>;
  /** The same for statements that may use the reserve below the limit, which is kept for existing users. */
  addToReserve<T>(
    context: AuthContext,
    text: string,
    params: readonly (string | null)[],
    lock?: UserLock,
  ): Promise<T | null>;
};

export type UserLock = Readonly<{ text: string; parameters: readonly string[] }>;

/**
 * A statement sees the snapshot of its start, even if it then waits for a row. So a statement that begins or ends
 * sessions, or uses codes, first locks its user in a separate statement. Otherwise a sign-in with the old password
 * could outlive the change of the password. The user is locked before its other rows, as deleting a user does: another
 * order would deadlock.
 */
function lockUser(condition: string): (value: string) => UserLock {
  return (value) => ({
    text: `select from auth.users where ${condition} for update`,
    parameters: [value],
  });
}

export const lockById = lockUser('id = $1::uuid');
export const lockByEmail = lockUser('email_key = $1::text');
export const lockByCode = lockUser('id = (select user_id from auth.codes where hash = $1::bytea)');

/** In the database. */
const timeoutMs = 5_000;
/**
 * For its turn among the writers of a full project, while the project is paused, and for a session. Together with `timeoutMs` and
 * the time that space is reclaimed for, this is less than a request may take.
 */
const maxWaitMs = 15_000;

/** These statements add rows, and can be repeated: one that was rolled back had no effect. */
const adding = {
  canRepeat: true,
  canCommit: false,
  alwaysMeasured: false,
  changes: true,
  isUndone: false,
  canShrink: false,
  adds: true,
  isHarmless: false,
};

export function openUserStore(query: QueryDeps): UserStore {
  const { admission } = query;
  const parse = <T>(answer: string | null) => (answer === null ? null : (parseJsonText(answer) as T));
  const throwExplained = (error: unknown) => {
    throw explain(error);
  };
  return {
    ask: async (context, text, params, lock) => {
      const options = { timeoutMs, maxWaitMs, first: firstOf(lock), changes: true };
      return parse(await lookUp(query, loginOf(context), text, [...params], options).catch(throwExplained));
    },
    add: async (context, text, params, lock) => {
      const project = projectLogin(context);
      const reader = noReader();
      const answer = withHeadroom(admission, { project, growth: adding, reader }, (measure, supervise) =>
        withSession(
          query,
          loginOf(context),
          { reader, timeoutMs, maxWaitMs, use: 'plain', supervise },
          async (work) => {
            const own = await ownSize(work, measure);
            const last = measure ? sizeCheck(measure, own) : [];
            return work.ask(text, [...params], { first: firstOf(lock), last, changes: true });
          },
        ),
      );
      return parse(await answer.catch(throwExplained));
    },
    addToReserve: async (context, text, params, lock) => {
      const startedAt = performance.now();
      const once = async () => {
        const { headroom } = admission;
        const { projectId } = context;
        const granted = await headroom.require(projectId, true);
        // While it runs, no insert starts without a size check. It is too short to be stopped.
        const end = headroom.watch(projectId, Number.POSITIVE_INFINITY, () => {});
        const pending = headroom.pending(projectId);
        const last = granted
          ? sizeCheck({ ...granted, ...wholeLimit, ceiling: granted.limit, pending }, null)
          : [];
        const leftMs = Math.max(1_000, maxWaitMs - (performance.now() - startedAt));
        const options = { timeoutMs, maxWaitMs: leftMs, first: firstOf(lock), last, changes: true };
        return lookUp(query, loginOf(context), text, [...params], options)
          .catch(async (error) => {
            throw isOverLimit(error) ? await headroom.refusal(projectId) : error;
          })
          .finally(end);
      };
      const answer = once().catch(async (error) => {
        if (!(error instanceof RowhouseError && error.code === 'project_full')) throw error;
        // Data of refused statements may still be on disk, next to the new files of tables that are being rewritten.
        await admission.reclaim.run(projectLogin(context));
        return once();
      });
      return parse(await answer.catch(throwExplained));
    },
  };
}

/** Only the size on disk decides. */
const wholeLimit = { comparesOwn: false, isCapped: false, extra: 0, left: 0 };

function loginOf({ projectId, serverId, accountId }: Place): ProjectLogin {
  return { id: projectId, serverId, passwordVersion: 1, accountId, loginAs: 'auth' };
}

export function projectLogin(context: AuthContext): ProjectLogin {
  const { projectId, serverId, passwordVersion, accountId } = context;
  return { id: projectId, serverId, passwordVersion, accountId };
}

function firstOf(lock: UserLock | undefined): readonly UserLock[] {
  return lock ? [lock] : [];
}

/** The caller did not write this SQL: its error is passed on only if the project itself caused it. */
function explain(error: unknown): unknown {
  if (!(error instanceof RowhouseError)) return errors.outcomeUnknown(error);
  if (fateOf(error) === 'uncertain') return errors.outcomeUnknown(error);
  // Raised by a trigger on a table that references users.
  if (wasRaised(error)) return error;
  if (error.sql?.state === sqlstate.lockNotAvailable) return errors.usersLocked(error);
  // Waiting for a session or a pause has its own error, so the statement itself was slow.
  if (error.code === 'query_timeout') return errors.usersTooSlow(timeoutMs, error);
  return error.sql ? (explainState(error.sql.state, error) ?? errors.internal(error)) : error;
}

/** SQL for a row of auth.users in its wire format. */
export function userJson(row: string): string {
  const time = (column: string) => `to_char(${row}.${column}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
  return `json_build_object('id', ${row}.id, 'email', ${row}.email, 'role', ${row}.role, 'data', ${row}.data,
    'created_at', ${time('created_at')}, 'last_sign_in_at', ${time('last_sign_in_at')},
    'email_verified_at', ${time('email_verified_at')}, 'banned_at', ${time('banned_at')})`;
}
