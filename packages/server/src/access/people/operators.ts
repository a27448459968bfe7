// Mail to the people who operate the installation: owners and admins of the accounts that may.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Control } from '../../control/control.ts';
import { sql } from '../../postgres/sql.ts';
import {
  maxOperatorAddresses,
  operatorMailAgainMs,
  operatorMailAttempts,
} from '../../settings/limits/mail.ts';
import type { PeopleMail } from './mail.ts';

type Deps = { control: Control; mail: PeopleMail; onError: (error: unknown) => void };
/** `problem`: null if it is over. */
type BackupNews = { server: string; problem: { reason: string; hint: string } | null };

/** Without a mail server, nothing is sent. It never rejects: the log and the metrics say the same. */
export async function mailBackupNews({ control, mail, onError }: Deps, news: BackupNews): Promise<void> {
  if (!mail.isConfigured) return;
  try {
    const rows = await control.query<{ email: string }>(sql`
      select distinct people.email
      from members join people on people.id = members.person_id join accounts on accounts.id = members.account_id
      where accounts.is_operator and accounts.suspended_at is null and members.role in ('owner', 'admin')
      order by people.email limit ${maxOperatorAddresses}`);
    const { server, problem } = news;
    const text = problem && `${server}: ${problem.reason}\n${problem.hint}`;
    const kind = problem ? ('member_backups_failing' as const) : ('member_backups_stored' as const);
    const send = async (email: string) => {
      const message = { kind, account: null, email, link: null, expiresAt: null, text };
      for (let attempt = 1; ; attempt++) {
        try {
          return await mail.send(message);
        } catch (error) {
          if (attempt === operatorMailAttempts) throw error;
        }
        await sleep(operatorMailAgainMs, undefined, { ref: false });
      }
    };
    await Promise.all(rows.map(({ email }) => send(email)));
  } catch (error) {
    onError(error);
  }
}
