// One connection: opens the way to PostgreSQL, follows the login, and passes bytes from then on.
import type { Socket } from 'node:net';
import type { Address } from '../postgres/admin/database.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { hideChannelBinding } from '../postgres/wire/channel-binding.ts';
import { connectBackend, unavailable } from './backend.ts';
import type { CancelRequests } from './cancel.ts';
import { openFlagCheck } from './channel-binding.ts';
import type { Counts, Refusal } from './counts.ts';
import { type EndReason, farewell, openFarewellCheck } from './farewell.ts';
import { openLoginReader } from './login-reader.ts';
import { errorResponse, ProxyError } from './proxy-error.ts';
import { closeSoon, closeTogether, pass } from './relay.ts';

export type LiveConnection<S> = Readonly<{ server: S; pid: number; client: Socket }>;

type Options<S> = {
  /** Paused. */
  client: Socket;
  server: S;
  /** The startup packet. */
  packet: Buffer;
  /** What came with it. */
  rest: Buffer;
  cancels: CancelRequests;
  counts: Counts;
  live: Set<LiveConnection<S>>;
  /** Aborts a login that takes too long. */
  ended: AbortSignal;
  onRefused: (reason: Refusal, problem: Error) => void;
  /** Why PostgreSQL ends the sessions of the project. null: for a reason that its own message says. */
  whyEnded: () => Promise<EndReason | null>;
  /** Whether the project exists, so that the lack of its database, or of a right to it, is over in a moment. */
  isThere: () => Promise<boolean>;
  /** PostgreSQL has accepted the password. Returns what to do when the connection is closed. */
  onOpened: () => () => void;
};

/** Resolves to true when PostgreSQL has accepted the password, to false when the connection has ended before. */
export async function logIn<S extends { address: Address }>(options: Options<S>): Promise<boolean> {
  const { client, server, counts, ended } = options;
  let reader: ((bytes: Buffer) => void) | null = null;
  const filter = server.address.tls ? hideChannelBinding() : null;
  const isFarewell = openFarewellCheck();
  /** In the present bytes, of a refusal that can only be for a moment. */
  let refusedAt = -1;
  const { socket: backend, at } = await connectBackend(server.address, (received) => {
    const bytes = filter ? filter(received) : received;
    counts.bytes.sent += bytes.length;
    if (!reader && isFarewell(bytes)) {
      // Until it is known why, the end of the connection waits too.
      backend.pause();
      void options
        .whyEnded()
        .catch(() => null)
        .then((reason) => {
          pass(backend, client, reason ? farewell(reason) : bytes);
          backend.resume();
        });
      return;
    }
    refusedAt = -1;
    reader?.(bytes);
    if (refusedAt < 0) return pass(backend, client, bytes);
    // The name belonged to another database for a moment: the login met the exchange of the two.
    const before = bytes.subarray(0, refusedAt);
    const refusal = bytes.subarray(refusedAt);
    backend.pause();
    void options
      .isThere()
      .catch(() => true)
      .then((isThere) => {
        pass(backend, client, Buffer.concat([before, isThere ? errorResponse(exchanged()) : refusal]));
        backend.resume();
      });
  });
  // Meanwhile the client may have been cut off.
  if (client.destroyed) {
    backend.destroy();
    return false;
  }
  return new Promise((resolve) => {
    let state: 'waiting' | 'authenticated' | 'ready' | 'refused' = 'waiting';
    let forget = () => {};
    let onClosed = () => {};
    const fail = (error: ProxyError) => {
      state = 'refused';
      options.onRefused(error.reason, error);
      if (!client.writableEnded) client.write(errorResponse(error));
      closeSoon(backend);
    };
    const onLate = () =>
      fail(new ProxyError('57014', 'canceling authentication due to timeout', { reason: 'timeout' }));
    ended.addEventListener('abort', onLate, { once: true });
    reader = openLoginReader({
      onAuthenticated: () => {
        state = 'authenticated';
        ended.removeEventListener('abort', onLate);
        onClosed = options.onOpened();
        resolve(true);
      },
      onKey: (pid, secret) => {
        const connection = { server, pid, client };
        const forgetKey = options.cancels.add({ pid, secret }, at);
        options.live.add(connection);
        forget = () => {
          forgetKey();
          options.live.delete(connection);
        };
      },
      onStandby: () => {
        if (server.address.primary) fail(unavailable());
      },
      onRefused: (code, at) => {
        if (momentary.includes(code)) refusedAt = at;
        const reason = code.startsWith('28') ? 'password' : 'postgres';
        options.onRefused(reason, new Error(`PostgreSQL refused the login with SQLSTATE ${code}`));
        if (state === 'waiting') state = 'refused';
      },
      onReady: () => {
        state = 'ready';
        reader = null;
        counts.connections.accepted++;
      },
    });
    // Before closeTogether: the client is still open then.
    const onLost = () => {
      if (state === 'waiting' && !client.destroyed && !client.readableEnded) fail(unavailable());
    };
    backend.once('end', onLost).once('close', onLost);
    closeTogether(client, backend, () => {
      ended.removeEventListener('abort', onLate);
      forget();
      onClosed();
      resolve(false);
    });
    const send = (bytes: Buffer) => {
      counts.bytes.received += bytes.length;
      pass(client, backend, bytes);
    };
    const sendChecked = (check: (bytes: Buffer) => Buffer) => (bytes: Buffer) => {
      try {
        send(check(bytes));
      } catch (error) {
        client.pause();
        fail(error as ProxyError);
      }
    };
    const receive = server.address.tls ? sendChecked(openFlagCheck()) : send;
    client.on('data', receive);
    send(options.packet);
    if (options.rest.length > 0) receive(options.rest);
    client.resume();
    if (ended.aborted) onLate();
  });
}

/**
 * Errors that a login of the project's own role gets while its database is exchanged: the database is missing, or belongs to
 * another role.
 */
const momentary: readonly string[] = [sqlstate.undefinedDatabase, sqlstate.insufficientPrivilege];

function exchanged(): ProxyError {
  return new ProxyError('57P03', 'this project is being reset, promoted, restored or moved', {
    hint: 'Try again in a moment.',
  });
}
