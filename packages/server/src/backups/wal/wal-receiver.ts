// Receives WAL from the slot and stores it. Goes on where the repository ends, confirms only what is stored, and stops
// reading while the storage is slower than PostgreSQL. Any failure ends it: the caller starts it again.
import { setTimeout as sleep } from 'node:timers/promises';
import { pause, unlessFailed } from '../../lib/pause.ts';
import type { Address, Queryable } from '../../postgres/admin/database.ts';
import { formatLsn, segmentName } from '../../postgres/replication/lsn.ts';
import {
  command,
  identifySystem,
  openReplication,
  streamWal,
  type WalStream,
} from '../../postgres/replication/replication.ts';
import type { Session } from '../../postgres/wire/session.ts';
import { names, putOnce, type Repository, timelineText } from '../repository/repository.ts';
import { SegmentWriter } from './segment-writer.ts';
import { findSlot } from './slot.ts';
import { continuousEnd, listSegments, readSegment, type StoredSegment, storedEnd } from './wal-archive.ts';

type Request = {
  repository: Repository;
  address: Address;
  maintenance: Queryable;
  slot: string;
  segmentBytes: number;
  /** How often new bytes are stored. */
  everyMs: number;
  signal: AbortSignal;
  /** Everything up to `stored` is in the repository; PostgreSQL had flushed up to `flushed`. */
  onStored: (stored: bigint, flushed: bigint) => void;
};

/** Complete segments that are stored at once, 16 MB of memory each. One at a time, each waits for the disk or the network. */
const maxWaiting = 4;
const signOfLifeMs = 10_000;
const lastStoreMs = 2_000;

export async function receiveWal(request: Request): Promise<void> {
  const { address, signal } = request;
  signal.throwIfAborted();
  const session = await openReplication(address);
  try {
    await receive(request, session);
  } finally {
    session.destroy();
  }
}

async function receive(request: Request, session: Session): Promise<void> {
  const { repository, slot, segmentBytes, everyMs, signal } = request;
  const { cluster, timeline, flushed } = await identifySystem(session);
  if (cluster !== repository.cluster) throw new Error('This is another PostgreSQL server.');
  await refuseLaterTimelines(repository, timeline, signal);
  await storeHistory(request, session, timeline);
  const segments = await listSegments(repository, timeline, { signal });
  const from = await startOf(request, segments, { timeline, flushed });

  const firstOf = (start: bigint) => start - (start % BigInt(segmentBytes));
  const name = segmentName(timeline, from, segmentBytes);
  const begun = from === firstOf(from) ? undefined : segments.find((segment) => segment.name === name);
  let current = new SegmentWriter(repository, {
    timeline,
    start: firstOf(from),
    segmentBytes,
    ...(begun && {
      pieces: begun.pieces,
      content: await readSegment(repository, name, segmentBytes, signal),
    }),
  });
  /** Complete segments that are being stored, oldest first. */
  const waiting: { segment: SegmentWriter; stored: Promise<void> }[] = [];
  let serverEnd = flushed;
  let wake = () => {};
  // A service that is stopped leaves nothing behind that could be stored, but does not wait for long.
  const ending = new AbortController();
  const endSoon = () => setTimeout(() => ending.abort(), lastStoreMs).unref();
  signal.addEventListener('abort', endSoon, { once: true });

  // From the beginning of the segment: what is stored of it must equal what this server sends.
  const stream: WalStream = streamWal(
    session,
    { slot, timeline, from: current.start },
    {
      serverEnd: (lsn) => {
        serverEnd = lsn;
      },
      data: (start, bytes) => {
        if (start !== current.start + BigInt(current.received)) {
          throw new Error(`PostgreSQL sent WAL from ${formatLsn(start)}, which does not follow.`);
        }
        for (let at = 0; at < bytes.length; ) {
          at += current.add(bytes.subarray(at));
          if (!current.isComplete) continue;
          const storing = current.store(ending.signal);
          storing.catch(() => {});
          waiting.push({ segment: current, stored: storing });
          const next = current.start + BigInt(segmentBytes);
          current = new SegmentWriter(repository, { timeline, start: next, segmentBytes });
          if (waiting.length >= maxWaiting) stream.pause();
          wake();
        }
      },
    },
  );
  const unlessEnded = unlessFailed(stream.ended.then(() => Promise.reject(new Error('The stream ended.'))));

  let stored = from;
  const confirm = () => stream.confirm(current.start + BigInt(current.received), stored);
  // Storing can take long, and PostgreSQL ends a connection that says nothing for a minute.
  const signOfLife = setInterval(confirm, signOfLifeMs);
  /** The oldest of the complete segments, or else what there is of the current one. */
  const storeNext = async () => {
    // Also while nothing is written: a repository that is gone is noticed at once.
    await repository.storage.check();
    const first = waiting[0];
    const segment = first?.segment ?? current;
    await (first?.stored ?? segment.store(ending.signal));
    if (first) waiting.shift();
    if (waiting.length < maxWaiting) stream.resume();
    stored = segment.storedEnd;
    confirm();
    request.onStored(stored, serverEnd);
  };
  /** Until the next time to store, or until a segment is complete. */
  const rest = () => {
    const woken = new AbortController();
    wake = () => woken.abort();
    return unlessEnded(pause(everyMs, woken.signal, signal));
  };
  let storing: Promise<void> = Promise.resolve();
  const step = () => {
    storing = storeNext();
    return unlessEnded(storing);
  };
  try {
    while (!signal.aborted) {
      await step();
      if (waiting.length === 0) await rest();
    }
    while (waiting.length > 0) await step();
    await step();
  } finally {
    clearInterval(signOfLife);
    signal.removeEventListener('abort', endSoon);
    ending.abort();
    // None may still be stored when this process, or another one, begins again. But a network file system can hang in a way
    // that nothing ends.
    const all = Promise.allSettled([storing, ...waiting.map((each) => each.stored)]);
    await Promise.race([all, sleep(lastStoreMs, undefined, { ref: false })]);
    stream.stop();
  }
}

/**
 * The end of what the repository has without a gap from the slot's position on: segments are stored at once, so a later
 * one can be there without an earlier one. The slot's position, if the repository has nothing there.
 */
async function startOf(
  { repository, maintenance, slot, segmentBytes }: Request,
  segments: readonly StoredSegment[],
  { timeline, flushed }: { timeline: number; flushed: bigint },
): Promise<bigint> {
  const state = await findSlot(maintenance, slot);
  if (state?.restart == null) throw new Error(`The replication slot ${slot} is missing or was given up.`);
  const end = storedEnd(segments, segmentBytes);
  if (end !== null && end > flushed) {
    throw new Error(
      `${repository.storage.place} contains WAL up to ${formatLsn(end)}, but this server ends at ${formatLsn(flushed)}. A copy of it, or a newer state, was backed up there.`,
    );
  }
  // The slot keeps whole segments, so the one that contains its position can still be sent from the beginning.
  const kept = state.restart - (state.restart % BigInt(segmentBytes));
  return continuousEnd(segments, kept, timeline, segmentBytes) ?? state.restart;
}

/** A copy of this server that was restored from the repository begins a new timeline. */
async function refuseLaterTimelines(
  repository: Repository,
  timeline: number,
  signal: AbortSignal,
): Promise<void> {
  const { storage, cluster } = repository;
  const later = (await storage.folders(`${cluster}/wal/`, signal)).find(
    (name) => /^[0-9A-F]{8}$/.test(name) && name > timelineText(timeline),
  );
  if (later === undefined) return;
  throw new Error(
    `${storage.place} contains WAL of the timeline ${later}, and this server is on ${timelineText(timeline)}. A copy of it that was restored stores there too.`,
  );
}

async function storeHistory(
  { repository, signal }: Request,
  session: Session,
  timeline: number,
): Promise<void> {
  if (timeline === 1) return;
  const [row] = await command(session, `TIMELINE_HISTORY ${timeline}`);
  const name = `${names.wal(repository, timeline)}${timelineText(timeline)}.history`;
  await putOnce(repository, name, Buffer.from(row?.[1] ?? ''), signal);
}
