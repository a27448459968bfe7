// The connection string of a project's database, for psql, ORMs and other PostgreSQL clients.
import type { ConnectionResponse } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { type Caller, requireWhole } from '../keys/caller.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { atPrimary } from '../postgres/wire/connect.ts';
import { RefusedError, Session } from '../postgres/wire/session.ts';
import { loginOf, type ProjectLogin } from '../servers/databases/login.ts';
import { resetPassword } from '../servers/databases/roles.ts';
import type { Server, Servers } from '../servers/server.ts';
import { getOpenProjectRow } from './find.ts';
import { loginOfRow } from './project.ts';

/** `proxy`: where the PostgreSQL proxy is reached. null: clients connect to PostgreSQL itself. */
type Deps = {
  control: Control;
  servers: Servers;
  proxy: { host: string; port: number; sslmode: string | null } | null;
};

export async function getConnection(
  { control, servers, proxy }: Deps,
  caller: Caller,
  slug: string,
): Promise<ConnectionResponse['connection']> {
  const row = await getOpenProjectRow(control, caller, slug);
  requireWhole(caller, 'read the database password');
  const login = loginOfRow(row);
  const server = servers.of(login.serverId);
  await ensureLogin(server, login);
  const { tls, user, password, database, ...direct } = atPrimary(loginOf(server, login));
  const { host, port, sslmode } = proxy ?? { ...direct, sslmode: tls ? 'require' : null };
  const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`;
  const options = new URLSearchParams(sslmode ? { sslmode } : {});
  // Where the proxy has a TLS connection to PostgreSQL (postgres-proxy/channel-binding.ts).
  if (proxy && tls) options.set('channel_binding', 'disable');
  const query = options.size > 0 ? `?${options}` : '';
  const url = `postgres://${user}:${encodeURIComponent(password)}@${authority}/${database}${query}`;
  return { url, host, port, database, user, password };
}

/** The project's role may have changed its own password: resets it, because the returned one must work. */
async function ensureLogin(server: Server, login: ProjectLogin): Promise<void> {
  try {
    (await Session.open(loginOf(server, login), { application_name: 'rowhouse' })).close();
  } catch (error) {
    if (!(error instanceof RefusedError)) throw errors.unavailable(error);
    if (error.sqlstate === sqlstate.invalidPassword) await resetPassword(server, login.id);
  }
}
