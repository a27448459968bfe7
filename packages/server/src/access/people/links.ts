// Links that sign in to the console once, as the start prints them.

import type { Control } from '../../control/control.ts';
import { sql } from '../../postgres/sql.ts';
import { signInLinkMinutes } from '../../settings/limits/people.ts';
import { hashSecret, newSecret } from './secrets.ts';

type Deps = { control: Control; now: () => number };

/** The code of a new link with the rights of the account's key; null if the account has no key. */
export async function createLink({ control, now }: Deps, accountId: string): Promise<string | null> {
  const code = newSecret('link');
  const expiresAt = new Date(now() + signInLinkMinutes * 60_000);
  const made = await control.change(sql`
    insert into console_links (hash, key_id, expires_at)
    select ${hashSecret('link', code)}::bytea, id, ${expiresAt}::timestamptz from keys
    where account_id = ${accountId} and kind = 'account' and role = 'owner' and revoked_at is null
      and (expires_at is null or expires_at > now())
    order by created_at desc limit 1
    returning 1`);
  return made.length > 0 ? code : null;
}
