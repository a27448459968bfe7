// Connections by the driver, for the service's own statements: a pool, and single ones. If the address has a primary, they
// go there, and are closed when another host has become the primary.
import pg from 'pg';
import type { Host, PrimaryHost, ServerAddress } from '../wire/server-address.ts';
import { StandbyError } from '../wire/session-errors.ts';
import { isUnreplicated } from '../wire/unreplicated.ts';

export type Clients = {
  readonly pool: pg.Pool;
  take(): Promise<pg.PoolClient>;
  /** Outside of the pool. `prepare` is called before it connects. */
  openAlone(more: pg.ClientConfig, prepare: (client: pg.Client) => void): Promise<pg.Client>;
};

/** Connections on which a commit was not replicated. */
export const unreplicated = new WeakSet<pg.ClientBase>();

export function openClients(
  { primary }: Pick<ServerAddress, 'primary'>,
  options: pg.ClientConfig,
  limits: { max: number; queryMs: number },
): Clients {
  const pooled = { ...options, query_timeout: limits.queryMs };
  /** The pool reads its options once, and the primary can move. */
  class PrimaryClient extends pg.Client {
    constructor() {
      super({ ...pooled, ...primary?.host });
    }
  }
  const pool = new pg.Pool({
    ...pooled,
    max: limits.max,
    idleTimeoutMillis: 30_000,
    ...(primary && { Client: PrimaryClient }),
  });
  // A connection that breaks between two statements is replaced at the next use. Without a listener on the pool (for
  // idle connections) and on each connection (for those in use), the error event would end the process.
  pool.on('error', () => {});
  pool.on('connect', (client) => {
    client.on('error', () => {});
    noteUnreplicated(client);
  });
  const checks = openChecks();
  const takeChecked = async (to: PrimaryHost): Promise<pg.PoolClient> => {
    for (;;) {
      const client = await pool.connect();
      try {
        if (!checks.isCut(client)) await checks.check(to, client);
        if (!checks.isCut(client)) return client;
      } catch (error) {
        client.release(true);
        throw error;
      }
      client.release(true);
    }
  };
  return {
    pool,
    take: () => (primary ? primary.connect(() => takeChecked(primary)) : pool.connect()),
    openAlone: (more, prepare) => {
      const open = async (host?: Host) => {
        const client = new pg.Client({ ...options, ...more, ...host });
        prepare(client);
        noteUnreplicated(client);
        await client.connect();
        if (!primary || !host) return client;
        return checks.check(primary, client).then(
          () => client,
          async (error) => {
            await client.end().catch(() => {});
            throw error;
          },
        );
      };
      return primary ? primary.connect(open) : open();
    },
  };
}

/** Whether connections lead to the primary. Each is asked once: a primary becomes a standby by a restart only. */
function openChecks() {
  const checked = new WeakSet<pg.Client>();
  /** Their hosts are no longer the primary. The pool may not have noticed yet that they are closed. */
  const cut = new WeakSet<pg.Client>();
  return {
    isCut: (client: pg.Client) => cut.has(client),
    check: async (primary: PrimaryHost, client: pg.Client): Promise<void> => {
      if (checked.has(client)) return;
      // Its own host: the primary may have moved since the pool began to open it.
      const host = primary.hosts.find((one) => one.host === client.host && one.port === client.port);
      if (!host) throw new Error(`${client.host}:${client.port} is none of the hosts`);
      const { rows } = await client.query('select pg_is_in_recovery() as standby');
      if (rows[0]?.standby !== false) throw new StandbyError();
      checked.add(client);
      const forget = primary.hold(host, () => {
        cut.add(client);
        // Not `end`: a host that is down would not answer it.
        client.connection.stream.destroy();
      });
      client.once('end', forget);
    },
  };
}

function noteUnreplicated(client: pg.Client): void {
  client.on('notice', (notice) => {
    if (isUnreplicated(notice)) unreplicated.add(client);
  });
}
