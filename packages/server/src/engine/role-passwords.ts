// Passwords of PostgreSQL roles follow from the master key and the role's name, so none is stored anywhere.
import { createHmac } from 'node:crypto';

export function derivePassword(masterKey: Buffer, role: string): string {
  return createHmac('sha256', masterKey).update(`rowhouse role ${role}`).digest('base64url');
}
