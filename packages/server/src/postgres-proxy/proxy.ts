// The PostgreSQL proxy: one address for psql, ORMs and every other PostgreSQL client, whatever server a project is on. It
// reads the startup packet, finds the project's server and passes bytes. PostgreSQL itself checks the password.
import { createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SecureContext } from 'node:tls';
import { networkOf, plainAddress } from '../lib/networks.ts';
import { sql } from '../postgres/sql.ts';
import type { Server } from '../servers/server.ts';
import { keepAliveMs, maxDirectSessions, proxyLimits } from '../settings/limits/direct-connections.ts';
import { admittedProject, requireTls } from './access.ts';
import { unavailable } from './backend.ts';
import { openCancelRequests } from './cancel.ts';
import { type Counts, newCounts, type Refusal } from './counts.ts';
import type { EndReason } from './farewell.ts';
import { openCounter, openQueue, openRate } from './limits.ts';
import { type LiveConnection, logIn } from './log-in.ts';
import { Disconnected, type Negotiated, negotiate, TlsFailure } from './negotiate.ts';
import { errorResponse, ProxyError } from './proxy-error.ts';
import { closeSoon } from './relay.ts';
import { openRoom } from './room.ts';
import type { StartupRequest } from './startup-packet.ts';

export type ProxiedServer = Pick<Server, 'address' | 'maintenance'>;
type Log = Record<'debug' | 'info' | 'warn', (details: object, message: string) => void>;

export type PostgresProxy = {
  /** Rejects with the error of the system. Returns the port. */
  listen(host: string, port: number): Promise<number>;
  counts: Readonly<Counts>;
  /** Ends all connections as PostgreSQL does when it stops, with 57P01. */
  stop(): Promise<void>;
};

export type ProxyOptions = {
  /**
   * The server of a project. For an unknown project: any server, which then refuses the login as for a wrong password. null:
   * the project is held for a moment.
   */
  serverOf(projectId: string): Promise<ProxiedServer | null>;
  servers(): readonly ProxiedServer[];
  /** Why PostgreSQL ends the sessions of the project. null: for a reason that its own message says. */
  whyEnded(projectId: string): Promise<EndReason | null>;
  /** Whether there is such a project. */
  isThere(projectId: string): Promise<boolean>;
  context: () => SecureContext;
  /** Whether other machines may connect without TLS. */
  allowPlaintext: boolean;
  maxConnections: number;
  log: Log;
  limits?: Partial<typeof proxyLimits>;
};

/** Log lines about refusals in each second, so that a flood does not replace everything else in the log. */
const loggedRefusals = { total: 10, perAddress: 3 };
const endWithinMs = 3_000;
/** How often a client that waits for its TLS handshake is looked at. */
const handshakeLookMs = 250;
/** How often a project that is held is looked at. */
const heldMs = 50;

export function openPostgresProxy(options: ProxyOptions): PostgresProxy {
  const { log } = options;
  const limits = { ...proxyLimits, ...options.limits };
  const counts = newCounts();
  const halfOpen = openCounter(limits.halfOpen);
  /** Look-ups of servers, and cancel requests. */
  const lookUps = openQueue(limits.logins);
  /** Each server has its own: logins that wait for one that hangs do not hold up those on another. */
  const logins = new Map<string, ReturnType<typeof openQueue>>();
  const loginsOn = ({ address: { host, port } }: ProxiedServer) => {
    const name = `${host}:${port}`;
    const queue = logins.get(name) ?? openQueue(limits.logins);
    logins.set(name, queue);
    return queue;
  };
  const handshakes = openRate(limits.handshakes);
  const room = openRoom(options.maxConnections, maxDirectSessions);
  const logged = openRate(loggedRefusals);
  const cancels = openCancelRequests(() => options.servers().map(({ address }) => address));
  /** All, and those that have not logged in. */
  const sockets = new Set<Socket>();
  const pending = new Set<Socket>();
  const live = new Set<LiveConnection<ProxiedServer>>();
  let isStopping = false;

  const refuse = (client: string, reason: Refusal, error: Error) => {
    counts.connections[reason]++;
    if (!logged.take(networkOf(client))) return;
    log.info({ client, reason, problem: error.message }, 'a direct connection was refused');
  };

  const accept = async (raw: Socket) => {
    const client = plainAddress(raw.remoteAddress);
    raw.on('error', () => {});
    sockets.add(raw);
    pending.add(raw);
    raw.once('close', () => sockets.delete(raw));
    const leave = halfOpen.enter(networkOf(client));
    /** The socket that can carry an answer. */
    let answers = raw;
    const late = new AbortController();
    const timer = setTimeout(() => {
      late.abort();
      raw.destroy();
    }, limits.startupMs);
    try {
      if (!leave) throw tooMany('too many connections from this address are waiting to log in', 'half_open');
      const context = async () => {
        while (!handshakes.take(networkOf(client)) && !raw.destroyed) await sleep(handshakeLookMs);
        return options.context();
      };
      const negotiated = await negotiate(raw, context, (secure) => {
        answers = secure;
      });
      clearTimeout(timer);
      if (negotiated.request.kind === 'cancel') await cancel(negotiated.socket, negotiated.request, client);
      else await connect(negotiated, negotiated.request, client);
    } catch (error) {
      if (late.signal.aborted) refuse(client, 'timeout', new Error('no startup packet in time'));
      else if (error instanceof ProxyError) refuse(client, error.reason, error);
      else if (error instanceof TlsFailure) refuse(client, 'tls', error);
      else if (!(error instanceof Disconnected))
        log.warn({ err: error, client }, 'a direct connection failed');
      if (error instanceof ProxyError) answers.write(errorResponse(error));
      if (error instanceof ProxyError) closeSoon(answers);
      else answers.destroy();
    } finally {
      clearTimeout(timer);
      pending.delete(raw);
      leave?.();
    }
  };

  const checkRoom = (project: string) => {
    const full = room.isFull(project);
    if (full === 'project') throw tooManyOfProject();
    if (full) throw tooMany('too many direct connections are open');
  };

  const tooManyLogins = (): never => {
    throw tooMany('too many logins are in progress');
  };
  /** A client that connects again while its project is moved waits, and takes no turn of others meanwhile. */
  const findServer = async (project: string, client: string, ended: AbortSignal): Promise<ProxiedServer> => {
    for (;;) {
      const leave = await lookUps.enter(networkOf(client), ended).catch(tooManyLogins);
      const server = await options.serverOf(project).finally(leave);
      if (server) return server;
      if (ended.aborted) throw unavailable();
      await sleep(heldMs);
    }
  };

  /** Resolves when the client has logged in, or when the connection has ended. */
  const connect = async (
    { socket, packet, rest, isEncrypted }: Negotiated,
    request: StartupRequest,
    client: string,
  ) => {
    requireTls(client, isEncrypted, options.allowPlaintext);
    const project = admittedProject(request);
    checkRoom(project);
    const ended = AbortSignal.timeout(limits.loginMs);
    const server = await findServer(project, client, ended);
    const leave = await loginsOn(server).enter(networkOf(client), ended).catch(tooManyLogins);
    let penaltyMs = 0;
    try {
      checkRoom(project);
      const isLoggedIn = await logIn({
        client: socket,
        server,
        packet,
        rest,
        cancels,
        counts,
        live,
        ended,
        whyEnded: () => options.whyEnded(project),
        isThere: () => options.isThere(project),
        onRefused: (reason, error) => {
          if (reason === 'password') penaltyMs = limits.penaltyMs;
          refuse(client, reason, error);
        },
        onOpened: () => {
          const leaveRoom = room.enter(project);
          counts.open++;
          return () => {
            leaveRoom();
            counts.open--;
            log.debug({ client, project }, 'a direct connection was closed');
          };
        },
      });
      if (isLoggedIn) log.debug({ client, project, tls: isEncrypted }, 'a direct connection was opened');
    } finally {
      leave(penaltyMs);
    }
  };

  const cancel = async (socket: Socket, key: { pid: number; secret: Buffer }, client: string) => {
    const leave = await lookUps
      .enter(networkOf(client), AbortSignal.timeout(limits.startupMs))
      .catch(() => null);
    const isSent = leave !== null && (await cancels.send(key, networkOf(client)));
    leave?.();
    counts.cancels[isSent ? 'sent' : 'dropped']++;
    closeSoon(socket);
  };

  const listener = createServer(
    { noDelay: true, keepAlive: true, keepAliveInitialDelay: keepAliveMs },
    (raw) => void accept(raw),
  );

  return {
    counts,
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        listener.once('error', reject);
        listener.listen({ host, port }, () => {
          // The system may run out of file descriptors. Without a listener, that would end the process.
          listener.off('error', reject).on('error', (error) => {
            if (logged.take('')) log.warn({ err: error }, 'a direct connection could not be accepted');
          });
          const address = listener.address();
          resolve(typeof address === 'object' && address ? address.port : port);
        });
      }),
    stop: async () => {
      if (isStopping) return;
      isStopping = true;
      const closed = new Promise<void>((resolve) => void listener.close(() => resolve()));
      for (const socket of pending) socket.destroy();
      const cut = setTimeout(() => {
        for (const socket of sockets) socket.destroy();
      }, endWithinMs);
      await endByPostgres(live, log);
      await closed;
      clearTimeout(cut);
    },
  };
}

/**
 * PostgreSQL sends 57P01 itself: only it knows where a message of a running statement ends. Another session may have got the
 * process id meanwhile, but this statement ends none but project roles' sessions.
 */
async function endByPostgres(live: ReadonlySet<LiveConnection<ProxiedServer>>, log: Log): Promise<void> {
  const end = async (server: ProxiedServer) => {
    const pids = [...live].filter((connection) => connection.server === server).map(({ pid }) => pid);
    const statement = sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where pid = any (${pids}::int[]) and usename = datname and datname like 'p\\_%'`;
    await server.maintenance
      .query(statement, endWithinMs)
      .catch((error) => log.warn({ err: error }, 'direct connections could not be told of the stop'));
  };
  await Promise.all([...new Set([...live].map(({ server }) => server))].map(end));
}

function tooManyOfProject(): ProxyError {
  return new ProxyError(
    '53300',
    `this project has ${maxDirectSessions} direct connections, and may have no more`,
    {
      hint: 'Close some, use a smaller pool, or share them with PgBouncer. The API has connections of its own.',
      reason: 'limit',
    },
  );
}

function tooMany(message: string, reason: Refusal = 'limit'): ProxyError {
  return new ProxyError('53300', message, { hint: 'Try again later.', reason });
}
