// A password that is set otherwise than at sign-up, and what a project refuses in any new one.
import { errors } from '../errors.ts';
import { isCommon } from './common-passwords.ts';
import type { AuthContext, UserDeps } from './deps.ts';
import { checkPassword } from './passwords.ts';
import { getSettings } from './settings.ts';

/** As it is to be kept. The same bounds, and the same queue, as at sign-up. */
export async function hashNew(deps: UserDeps, context: AuthContext, password: string): Promise<string> {
  checkPassword(password);
  const place = deps.hashing.reserve(context.projectId);
  try {
    if ((await getSettings(deps, context)).refuse_common_passwords) refuseCommon(password);
    return await place.hash(password);
  } finally {
    place.release();
  }
}

export function refuseCommon(password: string): void {
  if (!isCommon(password)) return;
  throw errors.invalidRequest(
    [
      {
        path: 'password',
        problem: 'is a common password, or one with something added, which this project refuses',
      },
    ],
    'Digits and punctuation around a common word do not make it a good password. Choose several unrelated words.',
  );
}
