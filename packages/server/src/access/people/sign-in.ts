// A person proves who it is: by a password, and by a second factor where there is one.
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
