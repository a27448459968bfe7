// Passwords of people: the rules and the hashing queue are those of end users.
import type { Control } from '../../control/control.ts';
import { errors } from '../../errors/errors.ts';
import { sql } from '../../postgres/sql.ts';
import { refuseCommon } from '../end-users/new-passwords.ts';
import { readEmail } from '../mail/emails.ts';
import type { Hashing } from '../passwords/hashing.ts';
import { checkGiven, checkPassword } from '../passwords/passwords.ts';
import { countAttempt } from './sign-in-attempts.ts';

export type PasswordDeps = { control: Control; hashing: Hashing };

/** All people share one turn in the queue, beside the projects. */
const queue = 'people';

export async function hashPassword({ hashing }: PasswordDeps, password: string): Promise<string> {
  checkPassword(password);
  refuseCommon(password);
  const reservation = hashing.reserve(queue);
  try {
    return await reservation.hash(password);
  } finally {
    reservation.release();
  }
}

/** The id of the person with this address and password. Takes the same time for an address that nobody has. */
export async function provePassword(
  { control, hashing }: PasswordDeps,
  { email, password, network }: { email: string; password: string; network: string },
): Promise<string> {
  const { key } = readEmail(email);
  checkGiven(password);
  const reservation = hashing.reserve(queue);
  try {
    const attempt = await countAttempt(control, key, network);
    const [row] = await control.query<{ id: string; hash: string | null }>(
      sql`select id, password_hash as hash from people where email_key = ${key}`,
    );
    const { matches, isOutdated } = await reservation.verify(password, row?.hash ?? null);
    if (!row?.hash || !matches) throw errors.wrongPersonPassword();
    await attempt.forgive();
    if (isOutdated) {
      const better = await reservation.hash(password);
      await control.change(
        sql`update people set password_hash = ${better} where id = ${row.id} and password_hash = ${row.hash}`,
      );
    }
    return row.id;
  } finally {
    reservation.release();
  }
}
