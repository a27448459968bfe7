// The account that owns projects, and its key: made at the first start, set by the environment, or made anew on request.
import type { Control } from './control/control.ts';
import { findSetting, keepSetting } from './control/settings.ts';
import { makeKey, readKeyPrefix } from './keys/form.ts';
import { setAccountKey } from './keys/manage.ts';
import { sql } from './postgres/sql.ts';

type Wishes = { accountKey: string | null; newAccountKey: boolean };

const accountId = 'default';

/**
 * Calls `show` with the key if one was made now, else with null. The key counts as made only after `show`: a start that
 * dies before it prints makes another next time, so a crash locks nobody out. The lock is held until then, so of several
 * services that start at once one prints a key, and it is the one that works.
 */
export async function ensureAccount(
  control: Control,
  wishes: Wishes,
  show: (madeKey: string | null) => void,
): Promise<void> {
  await control.session(async (session) => {
    await session.query(sql`select pg_advisory_lock(hashtext('rowhouse account'))`);
    const isShown = (await findSetting(session, 'account_key_shown')) !== null;
    const made =
      wishes.accountKey === null && (wishes.newAccountKey || !isShown) ? makeKey('rh_acct_') : null;
    const wanted = made ?? wishes.accountKey;
    if (wanted !== null) {
      await control.transaction(async (transaction) => {
        await transaction.query(sql`
          insert into accounts (id, name) values (${accountId}, ${accountId}) on conflict (id) do nothing`);
        await setAccountKey(transaction, accountId, wanted);
      });
    }
    show(made);
    if (!isShown) await keepSetting(session, 'account_key_shown', 'true');
  });
}

/** Said before anything starts. The example is a fresh key that can be used as it stands. */
export function accountKeyProblem(accountKey: string | null): string | null {
  if (accountKey === null || readKeyPrefix(accountKey) === 'rh_acct_') return null;
  return `ROWHOUSE_ACCOUNT_KEY is not an account key. A fresh one that you can use: ${makeKey('rh_acct_')}`;
}
