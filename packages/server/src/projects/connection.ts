// A direct way to a project's database, for psql, ORMs and everything else that speaks PostgreSQL.
import type { ConnectionResponse } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { databaseOf, resetPassword, roleOf } from '../engine/provision.ts';
import { derivePassword } from '../engine/role-passwords.ts';
import type { Server } from '../engine/servers.ts';
import { type Caller, requireWhole } from '../keys/caller.ts';
import { getProjectRow } from './find.ts';

type Deps = { control: Control; server: Server };

export async function getConnection(
  { control, server }: Deps,
  caller: Caller,
  slug: string,
): Promise<ConnectionResponse['connection']> {
  const { id } = await getProjectRow(control, caller, slug);
  requireWhole(caller, 'read the database password');
  // The project's role may have changed its own password: the one we hand out must work.
  await resetPassword(server, roleOf(id));
  const { host, port, tls } = server.address;
  const [database, user] = [databaseOf(id), roleOf(id)];
  const password = derivePassword(server.masterKey, user);
  const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const url = `postgres://${user}:${encodeURIComponent(password)}@${authority}/${database}${tls ? '?sslmode=require' : ''}`;
  return { url, host, port, database, user, password };
}
