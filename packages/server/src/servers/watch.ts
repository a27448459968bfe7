// Opens a further server as soon as it can be reached, and then checks every second that it answers. The connection is
// separate, so that long work on the server's other connections does not look like silence.
import { setTimeout as sleep } from 'node:timers/promises';
import { within } from '../lib/pause.ts';
import { type Address, type Database, openDatabase } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import type { Server } from './server.ts';

export type Watch = {
  isAnswering(): boolean;
  /** Resolves when the first attempt to open the server has ended, well or not. */
  readonly firstAttempt: Promise<void>;
  stop(): Promise<void>;
};

type Options = {
  address: Address;
  open: () => Promise<Server>;
  onOpen: (server: Server) => void;
  /** Called for the first failure, and not again until the server has answered. */
  onError: (error: unknown) => void;
};

const lookMs = 1_000;
const answerMs = 2_000;
const stopMs = 3_000;

export function openWatch({ address, open, onOpen, onError }: Options): Watch {
  const stopping = new AbortController();
  const database = openDatabase(address, { max: 1, queryMs: answerMs });
  const following = address.primary?.watch(stopping.signal);
  let isOpen = false;
  let isAnswering = false;
  let isReported = false;

  const look = async () => {
    if (!isOpen) {
      const server = await open();
      if (stopping.signal.aborted) return server.maintenance.end();
      onOpen(server);
      isOpen = true;
    }
    const asked = readRole(database);
    asked.catch(() => {});
    // Connecting has a limit of its own, which is longer.
    const row = await within(answerMs, asked, null);
    if (!row) throw new Error(`no answer within ${answerMs} ms`);
    if (row.standby) throw new Error('the server is a standby');
  };
  const turn = async () => {
    try {
      await look();
      isAnswering = true;
      isReported = false;
    } catch (error) {
      isAnswering = false;
      if (!isReported && !stopping.signal.aborted) onError(error);
      isReported = true;
    }
  };
  const firstAttempt = turn();
  const running = (async () => {
    await firstAttempt;
    while (!stopping.signal.aborted) {
      await sleep(lookMs, undefined, { signal: stopping.signal }).catch(() => {});
      if (!stopping.signal.aborted) await turn();
    }
  })();

  return {
    isAnswering: () => isAnswering,
    firstAttempt,
    stop: async () => {
      stopping.abort();
      // A server that hangs must not prevent the service from stopping.
      await Promise.race([
        Promise.all([running, following]).then(() => database.end()),
        sleep(stopMs, undefined, { ref: false }),
      ]);
    },
  };
}

async function readRole(database: Database): Promise<{ standby: boolean } | null> {
  const [row] = await database.query<{ standby: boolean }>(sql`select pg_is_in_recovery() as standby`);
  return row ?? null;
}
