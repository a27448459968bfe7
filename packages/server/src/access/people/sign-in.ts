// Sign-in of a person: a password, and a second factor if the person has one.
import { type PasswordDeps, provePassword } from './passwords.ts';
import { type FactorDeps, proveFactor } from './second-factor.ts';

type Given = { email: string; password: string; code: string | null; network: string };

export async function provePerson(
  deps: PasswordDeps & FactorDeps,
  { code, ...given }: Given,
): Promise<{ personId: string; hasSecondFactor: boolean }> {
  const personId = await provePassword(deps, given);
  return { personId, ...(await proveFactor(deps, personId, code, given.network)) };
}
