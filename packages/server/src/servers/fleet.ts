// The servers that this process has reached. The first one must answer for the service to start; each further one is opened
// and checked in a loop of its own, so that one that is unreachable or hangs does not hold up the others.

import { setTimeout as sleep } from 'node:timers/promises';
import type { Feed } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { mb } from '../lib/bytes.ts';
import { within } from '../lib/pause.ts';
import type { Address } from '../postgres/admin/database.ts';
import { keepSpares, type Spares } from './databases/spares.ts';
import { checkExternal, parseDatabaseUrl } from './external.ts';
import { type Candidate, choosePlace, type Refusal, type Wish } from './placement.ts';
import { hostNames, noteFirst, noteIdentifier, openAddress, readServers, type ServerRow } from './rows.ts';
import { openServer, type Server, type Servers } from './server.ts';
import { openWatch, type Watch } from './watch.ts';

/** A server as this process sees it. */
export type Member = Readonly<{
  row: ServerRow;
  /** null: it has not been reached yet. */
  server: Server | null;
  isAnswering: boolean;
}>;

type PromotionListener = (server: string, host: string) => void;

export type Fleet = Servers & {
  members(): readonly Member[];
  /** The server of a new project, and its spares. Throws if there is none. */
  place(wish: Wish): Readonly<{ server: Server; spares: Spares }>;
  sparesOf(serverId: number): Spares;
  /** Resolves when the first attempt to open the server has ended, or after some seconds. */
  settled(serverId: number): Promise<void>;
  /** Called when a standby of a server was promoted. */
  onPromotion(listener: PromotionListener): void;
  /** Reads the servers again, after this process has changed one. */
  refresh(): Promise<void>;
  stop(): Promise<void>;
};

type Options = {
  control: Control;
  feed: Feed;
  first: Server;
  masterKey: Buffer;
  /** How many to have ready now, on a server that takes projects. */
  wantedSpares: (server: Server) => number;
  /** From 0 to 1: the part of a server's sessions that is in use. */
  loadOf: (serverId: number) => number;
  /** A further server was reached for the first time. */
  onOpen: (server: Server) => void;
  onError: (error: unknown) => void;
};

type Entry = { row: ServerRow; watch: Watch | null; server: Server | null; spares: Spares | null };

const refreshMs = 5_000;
/** How long the start waits for further servers. Those that take longer are opened later. */
const startMs = 5_000;
const [stopFirstMs, stopMs] = [10_000, 3_000];
const settleMs = 30_000;
export async function openFleet(options: Options): Promise<Fleet> {
  const { control, feed, first, masterKey, onError } = options;
  const entries = new Map<number, Entry>();
  const stopping = new AbortController();
  const promotionListeners: PromotionListener[] = [];
  const followPromotions = (name: string, { primary }: Address) =>
    primary?.onPromotion(({ host, port }) => {
      for (const listener of promotionListeners) listener(name, `${host}:${port}`);
    });
  /** Megabytes placed since the background work counted. */
  const placed = new Map<number, { of: number; mb: number }>();

  const sparesFor = (server: Server): Spares =>
    keepSpares({
      control,
      server,
      onError,
      wanted: () => {
        const entry = entries.get(server.id);
        return entry?.row.state === 'active' && isAnswering(entry) ? options.wantedSpares(server) : 0;
      },
    });
  const isAnswering = ({ row, watch }: Entry) => row.id === first.id || (watch?.isAnswering() ?? false);

  const add = (row: ServerRow) => {
    if (row.id === first.id) {
      entries.set(row.id, { row, watch: null, server: first, spares: sparesFor(first) });
      return;
    }
    const entry: Entry = { row, watch: null, server: null, spares: null };
    entries.set(row.id, entry);
    if (row.state !== 'detached') watch(entry);
  };
  const watch = (entry: Entry) => {
    const { row } = entry;
    const url = openAddress(masterKey, row);
    // The first server of other settings: its address is not known here.
    if (url === null) return;
    const address = parseDatabaseUrl(url);
    followPromotions(row.name, address);
    entry.watch = openWatch({
      address,
      open: async () => {
        await checkExternal(address);
        const { id, name } = row;
        const { installation } = first;
        const server = await openServer({
          id,
          name,
          control,
          holdsControl: false,
          address,
          masterKey,
          installation,
          systemIdentifier: entry.row.systemIdentifier,
        });
        if (entry.row.systemIdentifier === null)
          await noteIdentifier(control, id, server.systemIdentifier).catch(onError);
        return server;
      },
      onOpen: (server) => {
        entry.server = server;
        entry.spares = sparesFor(server);
        options.onOpen(server);
      },
      onError: (error) =>
        onError(new Error(`The server "${row.name}" cannot be used; retrying.`, { cause: error })),
    });
  };
  const remove = async ({ watch, spares, server }: Entry) => {
    await watch?.stop();
    const closing = (async () => {
      await spares?.stop();
      await server?.maintenance.end();
    })();
    closing.catch(onError);
    // A server that hangs must not prevent the service from stopping.
    await within(server === first ? stopFirstMs : stopMs, closing, undefined);
  };

  const read = async () => {
    const rows = await readServers(control);
    for (const row of rows) {
      const known = entries.get(row.id);
      if (known) {
        const isAttached = known.row.state === 'detached' && row.state !== 'detached';
        known.row = row;
        if (isAttached && !stopping.signal.aborted) watch(known);
      } else if (!stopping.signal.aborted) add(row);
    }
    const present = new Set(rows.map(({ id }) => id));
    for (const [id, entry] of entries) {
      if (present.has(id) || id === first.id) continue;
      entries.delete(id);
      await remove(entry).catch(onError);
    }
  };
  // One after the other: a result must not be replaced by an older one.
  let reading: Promise<void> = Promise.resolve();
  const refresh = () => {
    const next = reading.then(read);
    reading = next.catch(() => {});
    return next;
  };

  await noteFirst(control, first.id, hostNames(first.address), first.systemIdentifier);
  followPromotions(first.name, first.address);
  const following = first.address.primary?.watch(stopping.signal);
  await refresh();
  const attempts = [...entries.values()].map(({ watch }) => watch?.firstAttempt);
  await Promise.race([Promise.all(attempts), sleep(startMs, undefined, { ref: false })]);
  feed.listen(({ serverId }) => {
    if (serverId !== null) refresh().catch(onError);
  });
  feed.listenToReset(() => refresh().catch(onError));
  // Requests that need the control database report its failure.
  const timer = setInterval(() => refresh().catch(() => {}), refreshMs).unref();

  const candidateOf = (entry: Entry): Candidate => {
    const { id, name, state, labels, capacityMb, usedBytes } = entry.row;
    const since = placed.get(id);
    return {
      id,
      name,
      labels,
      capacityMb,
      isActive: state === 'active',
      isAnswering: isAnswering(entry),
      usedMb: usedBytes / mb + (since?.of === usedBytes ? since.mb : 0),
      load: options.loadOf(id),
    };
  };
  /** An empty project counts until the next count, so that projects created at once do not all go to one server. */
  const note = (id: number, usedBytes: number) => {
    const since = placed.get(id);
    placed.set(id, { of: usedBytes, mb: (since?.of === usedBytes ? since.mb : 0) + emptyMb });
  };

  const opened = (serverId: number): Entry & { server: Server; spares: Spares } => {
    const entry = entries.get(serverId);
    if (entry?.row.state === 'detached') throw errors.serverDetached();
    if (!entry?.server || !entry.spares)
      throw errors.unavailable(`the server ${entry?.row.name ?? serverId} has not been reached`);
    return { ...entry, server: entry.server, spares: entry.spares };
  };

  return {
    first,
    of: (serverId) => (serverId === first.id ? first : opened(serverId).server),
    all: () => [...entries.values()].flatMap(({ server }) => server ?? []),
    members: () =>
      [...entries.values()].map((entry) => ({
        row: entry.row,
        server: entry.server,
        isAnswering: isAnswering(entry),
      })),
    place: (wish) => {
      const choice = choosePlace([...entries.values()].map(candidateOf), wish);
      if ('refused' in choice) throw refusalOf(choice.refused, wish);
      const { server, spares, row } = opened(choice.id);
      note(choice.id, row.usedBytes);
      return { server, spares };
    },
    sparesOf: (serverId) => opened(serverId).spares,
    settled: async (serverId) => {
      const attempt = entries.get(serverId)?.watch?.firstAttempt;
      await Promise.race([attempt, sleep(settleMs, undefined, { ref: false })]);
    },
    onPromotion: (listener) => void promotionListeners.push(listener),
    refresh,
    stop: async () => {
      stopping.abort();
      clearInterval(timer);
      await Promise.all([reading, following]);
      await Promise.all([...entries.values()].map(remove));
    },
  };
}

/** The size of an empty project on disk. */
const emptyMb = 8;

function refusalOf(refused: Refusal, { server, labels = [] }: Wish): Error {
  switch (refused) {
    case 'unknown':
      return errors.invalidRequest([{ path: 'server', problem: `there is no server "${server ?? ''}"` }]);
    case 'labels':
      return errors.invalidRequest([{ path: 'labels', problem: `no server has: ${labels.join(', ')}` }]);
    case 'draining':
      return errors.conflict(
        'The servers that fit are being drained and take no new projects.',
        'Choose another server, add one, or end a drain: rowhouse servers drain <name> --undo.',
      );
    case 'full':
      return errors.noRoom();
    default:
      return errors.unavailable('no server that fits is available');
  }
}
