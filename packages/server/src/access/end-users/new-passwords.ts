// Hashes a password that is set outside of sign-up, and refuses common passwords where the project's settings say so.
import { errors } from '../../errors/errors.ts';
import { isCommon } from '../passwords/common-passwords.ts';
import { checkPassword } from '../passwords/passwords.ts';
import type { AuthContext } from './auth-context.ts';
import type { UserDeps } from './deps.ts';
import { getSettings } from './settings.ts';

/** Returns the text to be stored. The length limits and the hashing queue are those of sign-up. */
export async function hashNew(deps: UserDeps, context: AuthContext, password: string): Promise<string> {
  checkPassword(password);
  const reservation = deps.hashing.reserve(context.projectId, context.accountId);
  try {
    if ((await getSettings(deps, context)).refuse_common_passwords) refuseCommon(password);
    return await reservation.hash(password);
  } finally {
    reservation.release();
  }
}

export function refuseCommon(password: string): void {
  if (!isCommon(password)) return;
  throw errors.invalidRequest(
    [
      {
        path: 'password',
        problem: 'must not be a common password or a simple variation of one',
      },
    ],
    'Digits and punctuation around a common word do not make it a good password. Choose several unrelated words.',
  );
}
