// A person proves who it is.
import { type PasswordDeps, provePassword } from './passwords.ts';

type Given = { email: string; password: string; network: string };

export async function provePerson(
  deps: PasswordDeps,
  given: Given,
): Promise<{ personId: string; hasSecondFactor: boolean }> {
  return { personId: await provePassword(deps, given), hasSecondFactor: false };
}
