// Cancel requests. PostgreSQL identifies a session by its process id and a secret, and checks both itself. A client sends
// them on a new connection, which can arrive in another process of the service, or on another machine behind the same
// name. So a request whose key is not known here goes to every server: only the right one acts on it. It is limited, as
// each costs PostgreSQL a process, and a secret of 4 bytes must not be guessed.
import { once } from 'node:events';
import type { Address } from '../postgres/admin/database.ts';
import { FrontendMessages } from '../postgres/wire/frontend-messages.ts';
import { connectBackend } from './backend.ts';
import { openRate } from './limits.ts';

export type CancelKey = Readonly<{ pid: number; secret: Buffer }>;

/**
 * How many requests with an unknown key are looked at in each second. At 50, the secret of one session is guessed once in 2.7
 * years.
 */
const unknownLimit = { total: 50, perAddress: 10 };
const answerMs = 5_000;

export type CancelRequests = {
  /** Remembers the key of an open connection. Returns how to forget it. */
  add(key: CancelKey, address: Address): () => void;
  /** Resolves when the servers have read the request. False: it was not passed on. */
  send(key: CancelKey, from: string): Promise<boolean>;
};

export function openCancelRequests(allServers: () => readonly Address[]): CancelRequests {
  const known = new Map<string, Address>();
  const rate = openRate(unknownLimit);
  return {
    add: (key, address) => {
      const name = nameOf(key);
      known.set(name, address);
      return () => {
        // The server may have given the process id to another session meanwhile, but not with the same secret.
        known.delete(name);
      };
    },
    send: async (key, from) => {
      const address = known.get(nameOf(key));
      if (!address && !rate.take(from)) return false;
      const targets = address ? [address] : allServers();
      await Promise.allSettled(targets.map((target) => sendTo(target, key)));
      return true;
    },
  };
}

function nameOf({ pid, secret }: CancelKey): string {
  return `${pid} ${secret.toString('base64')}`;
}

/** PostgreSQL answers by closing the connection, after it has sent the signal. */
async function sendTo(address: Address, { pid, secret }: CancelKey): Promise<void> {
  const { socket: backend } = await connectBackend(address, () => {});
  backend.on('error', () => {});
  backend.write(new FrontendMessages().cancel(pid, secret).take());
  try {
    await once(backend.resume(), 'close', { signal: AbortSignal.timeout(answerMs) });
  } finally {
    backend.destroy();
  }
}
