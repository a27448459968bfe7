// PostgreSQL cannot store a NUL character in any text, so a text with one is refused before it is sent.
import { errors } from '../../errors/errors.ts';

export function refuseNul(text: string, path: string): void {
  if (text.includes('\0'))
    throw errors.invalidRequest([{ path, problem: 'must not contain a NUL character' }]);
}
