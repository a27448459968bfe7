// The account that owns projects, and its key: made at the first start, set by the environment, or made anew on request.

import type { Control } from './control/control.ts';
import { findSetting, keepSetting } from './control/settings.ts';
import { makeKey, readKeyPrefix } from './keys/form.ts';
import { setAccountKey } from './keys/manage.ts';
import { sql } from './postgres/sql.ts';

type Wishes = { accountKey: string | null; newAccountKey: boolean };

const accountId = 'default';

/**
 * Returns the key to print, if one was made now. It counts as made only when `shown` has run: a start that dies before
 * printing makes another at the next start, so nobody is locked out by a crash.
 */
export async function ensureAccount(
  control: Control,
  { accountKey, newAccountKey }: Wishes,
): Promise<{ madeKey: string | null; shown: () => Promise<void> }> {
  return control.transaction(async (transaction) => {
    // Two services that start at once: the second waits here and finds the account made.
    await transaction.query(sql`select pg_advisory_xact_lock(hashtext('rowhouse account'))`);
    await transaction.query(sql`
      insert into accounts (id, name) values (${accountId}, ${accountId}) on conflict (id) do nothing`);
    if (accountKey !== null) {
      await setAccountKey(transaction, accountId, accountKey);
      await keepSetting(transaction, 'account_key_shown', 'true');
      return { madeKey: null, shown: async () => {} };
    }
    const isShown = (await findSetting(transaction, 'account_key_shown')) !== null;
    if (isShown && !newAccountKey) return { madeKey: null, shown: async () => {} };
    const madeKey = makeKey('rh_acct_');
    await setAccountKey(transaction, accountId, madeKey);
    return {
      madeKey,
      shown: async () => {
        await keepSetting(control, 'account_key_shown', 'true');
      },
    };
  });
}

/** Said before anything starts. The example is a fresh key that can be used as it stands. */
export function accountKeyProblem(accountKey: string | null): string | null {
  if (accountKey === null || readKeyPrefix(accountKey) === 'rh_acct_') return null;
  return `ROWHOUSE_ACCOUNT_KEY is not an account key. A fresh one that you can use: ${makeKey('rh_acct_')}`;
}
