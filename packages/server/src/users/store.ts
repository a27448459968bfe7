// Users in the project's own database, as the role that owns them. One statement a step, one value back: JSON.
//
// A statement sees what there was when it began, also when it then waits for a row. So what begins or ends sessions, or
// uses codes, first locks its user in a statement of its own: else a sign-in with the old password could outlive the new.
import { errors, RowhouseError } from '../errors.ts';
import { wasRaised } from '../query/failures.ts';
import { parseJsonText } from '../query/json-text.ts';
import { ask, type QueryDeps } from '../query/run.ts';

export type UserStore = {
  /** The value that the statement gives, or null. `lock`: runs before it, in the same transaction. */
  ask<T>(
    projectId: string,
    text: string,
    params: readonly (string | null)[],
    lock?: UserLock,
  ): Promise<T | null>;
};

export type UserLock = Readonly<{ text: string; parameters: readonly string[] }>;

/** Before anything else that belongs to the user, as deleting one does: who locks in another order waits for ever. */
function lockUser(condition: string): (value: string) => UserLock {
  return (value) => ({
    text: `select from auth.users where ${condition} for update`,
    parameters: [value],
  });
}

export const lockById = lockUser('id = $1::uuid');
export const lockByEmail = lockUser('email_key = $1::text');
export const lockByCode = lockUser('id = (select user_id from auth.codes where hash = $1::bytea)');

const timeoutMs = 5_000;

export function openUserStore(query: QueryDeps): UserStore {
  return {
    ask: async <T>(projectId: string, text: string, params: readonly (string | null)[], lock?: UserLock) => {
      const login = { id: projectId, passwordVersion: 1, seat: 'auth' } as const;
      const options = { timeoutMs, first: lock ? [lock] : [], changes: true };
      const answer = await ask(query, login, text, [...params], options).catch((error) => {
        throw explain(error);
      });
      return answer === null ? null : (parseJsonText(answer) as T);
    },
  };
}

/** It is no SQL of the caller's: what went wrong with it is told only if the project itself is in the way. */
function explain(error: unknown): unknown {
  if (!(error instanceof RowhouseError)) return errors.outcomeUnknown(error);
  // A trigger on a table that refers to users.
  if (wasRaised(error)) return error;
  if (error.code === 'query_timeout' || error.sql?.state === lockNotAvailable)
    return errors.usersLocked(error);
  return error.sql ? errors.internal(error) : error;
}

const lockNotAvailable = '55P03';

/** A row of auth.users as the wire shows it. */
export function userJson(row: string): string {
  const time = (column: string) => `to_char(${row}.${column}, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
  return `json_build_object('id', ${row}.id, 'email', ${row}.email, 'role', ${row}.role, 'data', ${row}.data,
    'created_at', ${time('created_at')}, 'last_sign_in_at', ${time('last_sign_in_at')},
    'email_verified_at', ${time('email_verified_at')}, 'banned_at', ${time('banned_at')})`;
}
