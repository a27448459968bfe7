// Passwords of PostgreSQL roles are derived from the master key and the role's name, so none is stored.
import { createHmac } from 'node:crypto';

/** `version` rises when a project's password must change permanently. */
export function derivePassword(masterKey: Buffer, role: string, version = 1): string {
  const name = version === 1 ? role : `${role} ${version}`;
  return createHmac('sha256', masterKey).update(`rowhouse role ${name}`).digest('base64url');
}
