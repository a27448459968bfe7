// The first account and its key, and the operator's key: created at the first start, set by the environment, or replaced on
// request.

import type { Control } from '../../control/control.ts';
import { locks, takeLock } from '../../control/lock-names.ts';
import { findSetting, keepSetting } from '../../control/settings.ts';
import { type KeyPrefix, makeKey, readKeyPrefix } from '../../keys/form.ts';
import { setAccountKey, setOperatorKey } from '../../keys/installation-keys.ts';
import { sql } from '../../postgres/sql.ts';

type Wishes = {
  accountKey: string | null;
  newAccountKey: boolean;
  operatorKey?: string | null;
  newOperatorKey?: boolean;
};
/** null: it was not made now. `isRefused`: ROWHOUSE_ACCOUNT_KEY is a key that somebody has revoked. */
export type MadeKeys = Readonly<{ account: string | null; operator: string | null; isRefused: boolean }>;

export const accountId = 'default';

/**
 * Calls `show` with the keys that were created. They count as created only after `show`: a start that crashes before it prints
 * creates others next time, so that a crash does not lock the operator out. The lock is held until then: of several services
 * that start at once, only one prints keys, and those work.
 */
export async function ensureAccount(
  control: Control,
  wishes: Wishes,
  show: (made: MadeKeys) => void | Promise<void>,
): Promise<void> {
  await control.session(async (session) => {
    await takeLock(session, locks.account);
    const isShown = (await findSetting(session, 'account_key_shown')) !== null;
    const made =
      wishes.accountKey === null && (wishes.newAccountKey || !isShown) ? makeKey('rh_acct_') : null;
    const wanted = made ?? wishes.accountKey;
    const isRefused =
      wanted !== null &&
      (await control.transaction(async (transaction) => {
        await transaction.query(sql`
          insert into accounts (id, name, is_operator) values (${accountId}, ${accountId}, true)
          on conflict (id) do nothing`);
        return (await setAccountKey(transaction, accountId, wanted)) === 'refused';
      }));
    const operator = await ensureOperatorKey(control, wishes, !isShown);
    await show({ account: made, operator, isRefused });
    if (!isShown) await keepSetting(session, 'account_key_shown', 'true');
  });
}

/** Made at the first start. An installation of an earlier version gets one on request. */
async function ensureOperatorKey(control: Control, wishes: Wishes, isFirst: boolean): Promise<string | null> {
  const given = wishes.operatorKey ?? null;
  const made = given === null && (wishes.newOperatorKey || isFirst) ? makeKey('rh_oper_') : null;
  const wanted = made ?? given;
  if (wanted !== null) await control.transaction((transaction) => setOperatorKey(transaction, wanted));
  return made;
}

/** Checked before anything starts. The suggestions are new keys that can be used as they are. */
export function accountKeyProblem(accountKey: string | null): string | null {
  return keyProblem('ROWHOUSE_ACCOUNT_KEY', 'account', 'rh_acct_', accountKey);
}

export function operatorKeyProblem(operatorKey: string | null): string | null {
  return keyProblem('ROWHOUSE_OPERATOR_KEY', 'operator', 'rh_oper_', operatorKey);
}

function keyProblem(setting: string, kind: string, prefix: KeyPrefix, key: string | null): string | null {
  if (key === null || readKeyPrefix(key) === prefix) return null;
  return `${setting} is not a valid ${kind} key. You can use this new one: ${makeKey(prefix)}`;
}
