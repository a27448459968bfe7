// Opens the proxy as the settings say.

import type { Control } from '../control/control.ts';
import { isHeld } from '../control/holds.ts';
import { RowhouseError } from '../errors/errors.ts';
import { sql } from '../postgres/sql.ts';
import { cannotListen, type Place } from '../servers/embedded/listening.ts';
import type { Server, Servers } from '../servers/server.ts';
import type { Config } from '../settings/config.ts';
import { ensureSelfSigned, openTls, selfSignedFiles, serviceTlsFiles, type TlsFiles } from '../tls/files.ts';
import { unavailable } from './backend.ts';
import type { EndReason } from './farewell.ts';
import { openPostgresProxy, type PostgresProxy, type ProxyOptions } from './proxy.ts';
import { listenHost, publicAddress } from './public-address.ts';

/** The certificate to use. `make`: makes it if it is missing; of several processes the first one does. */
export function tlsFilesOf(config: Config, { make }: { make: boolean }): TlsFiles {
  const { postgresTlsCert: certificate, postgresTlsKey: key, dataFolder } = config;
  if (certificate !== null && key !== null) return { certificate, key };
  const ofService = serviceTlsFiles(config);
  if (ofService) return ofService;
  const names = [publicAddress(config)?.host ?? listenHost(config), 'localhost', '127.0.0.1', '::1'];
  return make ? ensureSelfSigned(dataFolder, [...new Set(names)]) : selfSignedFiles(dataFolder);
}

/** null: the settings ask for none. */
export function openProxyFor(
  config: Config,
  { control, servers, log }: { control: Control; servers: Servers; log: ProxyOptions['log'] },
): PostgresProxy | null {
  if (config.postgresPort === null) return null;
  const onProblem = (error: unknown) =>
    log.warn({ err: error }, 'the new TLS certificate cannot be used; the previous one stays in use');
  return openPostgresProxy({
    serverOf: (projectId) => findServer(control, servers, projectId),
    servers: servers.all,
    whyEnded: (projectId) => whyEnded(control, projectId),
    isThere: (projectId) => isThere(control, projectId),
    context: openTls(tlsFilesOf(config, { make: false }), onProblem),
    allowPlaintext: config.postgresPlaintext,
    // Each worker gets its share.
    maxConnections: Math.ceil(config.postgresConnections / config.workers),
    log,
  });
}

/**
 * For an unknown project the first one: it refuses the login as for a wrong password. null: the project is held, because it is
 * being moved or branched.
 */
export async function findServer(
  control: Control,
  servers: Servers,
  projectId: string,
): Promise<Server | null> {
  try {
    const [row] = await control.query<{ serverId: number; isHeld: boolean }>(sql`
      select server_id as "serverId", ${isHeld} as "isHeld" from projects where id = ${projectId}`);
    if (row?.isHeld) return null;
    return row ? servers.of(row.serverId) : servers.first;
  } catch (error) {
    throw error instanceof RowhouseError ? unavailable() : error;
  }
}

export async function whyEnded(control: Control, projectId: string): Promise<EndReason | null> {
  const statement = sql`
    select moves.state, holds.project_id is not null as "isHeld"
    from (values (${projectId}::text)) as asked (id)
      left join moves on moves.project_id = asked.id
      left join holds on holds.project_id = asked.id and is_closed and expires_at > now()`;
  const [row] = await control.query<{ state: string | null; isHeld: boolean }>(statement, lookMs);
  if (!row) return null;
  // Before a project that moves is held, a session that ends has another reason.
  if (row.state !== null && (row.isHeld || row.state !== 'copying')) return 'moving';
  return row.isHeld ? 'held' : null;
}

export async function isThere(control: Control, projectId: string): Promise<boolean> {
  const statement = sql`select from projects where id = ${projectId} and deleted_at is null`;
  return (await control.query(statement, lookMs)).length > 0;
}
/** A client whose connection has ended waits for no longer than this to hear of it. */
const lookMs = 1_000;

export async function listenForPostgres(config: Config, proxy: PostgresProxy): Promise<void> {
  const place = postgresPlace(config);
  await proxy.listen(place.host, place.port).catch((error: NodeJS.ErrnoException) => {
    throw cannotListen(place, error.code ?? error.message);
  });
}

export function postgresPlace(config: Config): Place {
  return {
    host: listenHost(config),
    port: config.postgresPort ?? 0,
    settings: { host: 'ROWHOUSE_POSTGRES_HOST', port: 'ROWHOUSE_POSTGRES_PORT' },
  };
}
