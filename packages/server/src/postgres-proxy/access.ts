// Who may use direct connections: only a project's own role, in its own database, without replication, and with TLS from other
// machines. PostgreSQL itself checks the password.
import { isId } from '../control/new-id.ts';
import { isLoopback } from '../lib/networks.ts';
import { databaseOf } from '../servers/databases/names.ts';
import { ProxyError } from './proxy-error.ts';
import type { StartupRequest } from './startup-packet.ts';

/** The id of the project to which the login belongs. Nothing here depends on whether the project exists. */
export function admittedProject({ user, database, isReplication }: StartupRequest): string {
  const id = database.slice(2);
  if (!isId(id) || database !== databaseOf(id) || user !== database) {
    throw new ProxyError('28000', 'this user and database are not those of a project', {
      hint: 'Use the address that GET /projects/:slug/connection returns.',
      reason: 'name',
    });
  }
  if (isReplication)
    throw new ProxyError('42501', 'replication connections are not available', { reason: 'name' });
  return id;
}

/** `allowPlaintext`: other machines may connect without TLS, too. */
export function requireTls(client: string, isEncrypted: boolean, allowPlaintext: boolean): void {
  if (isEncrypted || allowPlaintext || isLoopback(client)) return;
  throw new ProxyError('28000', 'connections from other machines require TLS', {
    hint: 'Add sslmode=require to the connection string.',
    reason: 'plaintext',
  });
}
