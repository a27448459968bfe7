// The account that owns projects, and its key: created at the first start, set by the environment, or replaced on request.
import type { Control } from './control/control.ts';
import { findSetting, keepSetting } from './control/settings.ts';
import { makeKey, readKeyPrefix } from './keys/form.ts';
import { setAccountKey } from './keys/manage.ts';
import { sql } from './postgres/sql.ts';

type Wishes = { accountKey: string | null; newAccountKey: boolean };

export const accountId = 'default';

/**
 * Calls `show` with the key if a new one was created, otherwise with null. The key counts as created only after `show`: a
 * start that crashes before it prints creates another key next time, so that a crash does not lock the operator out. The
 * lock is held until then: of several services that start at once, only one prints a key, and that key works.
 */
export async function ensureAccount(
  control: Control,
  wishes: Wishes,
  show: (madeKey: string | null) => void | Promise<void>,
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
    await show(made);
    if (!isShown) await keepSetting(session, 'account_key_shown', 'true');
  });
}

/** Checked before anything starts. The suggestion is a new key that can be used as it is. */
export function accountKeyProblem(accountKey: string | null): string | null {
  if (accountKey === null || readKeyPrefix(accountKey) === 'rh_acct_') return null;
  return `ROWHOUSE_ACCOUNT_KEY is not a valid account key. You can use this new one: ${makeKey('rh_acct_')}`;
}
