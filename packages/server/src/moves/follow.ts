// Watches the target while it copies and follows the source, before the pause: how far it is, whether it gets on, and whether what
// was copied is still as it was.

import { setTimeout as sleep } from 'node:timers/promises';
import { timeoutSignal } from '../lib/timeout-signal.ts';
import type { Database } from '../postgres/admin/database.ts';
import { isBreak } from '../postgres/admin/database.ts';
import { databaseOf } from '../servers/databases/names.ts';
import { noteSnapshot, openInside, readSlot, type SlotState } from '../servers/databases/publication.ts';
import { enableSubscription, readSync } from '../servers/databases/subscription.ts';
import type { Server } from '../servers/server.ts';
import { movePhaseMs, moveStallMs } from '../settings/limits/moves.ts';
import { fingerprint, SchemaChanged } from './catalog-fingerprint.ts';
import type { CopyOptions } from './copy.ts';
import { NotOnline } from './replicable.ts';

/** Others wait for their turn, so this one is given up. A second time, the project is moved by a dump. */
export class FellBehind extends NotOnline {}

export const hasStopped = 'replication has stopped with an error';

/** Behind by this much, the target needs a moment for the rest. */
const smallLagBytes = 256 * 1024;
const [lookMs, enabledEvery] = [50, 20];
/** How often the catalog is compared while rows are copied, and at most which part of the time that may take. */
const [watchMs, watchPart] = [1_000, 0.02];
/** For this long a server that restarts meanwhile may not answer. */
const awayMs = 30_000;
/**
 * How often PostgreSQL may stop the replication without having got any further in between, and in all: a function in an index of
 * the project can fail as often as it likes.
 */
const [maxRevivals, maxRevivalsInAll, revivalMs] = [10, 50, 1_000];
/** The source keeps its log until the target has it. The embedded server gives up a slot at this or less. */
const maxKeptBytes = 4 * 1024 * 1024 * 1024;

/** Shortly before the pause, which would be for nothing otherwise. The session ends: the pause waits for every one. */
export async function checkUnchanged(from: Server, projectId: string, print: string): Promise<void> {
  const inside = openInside(from, databaseOf(projectId));
  const now = await fingerprint(inside).finally(() => inside.end());
  if (now !== print) throw new SchemaChanged();
}

type Watch = () => Promise<void>;

/** A table that loses its key refuses UPDATE while it is published, so a change is noticed soon. */
export function openWatch(live: Database, print: string): Watch {
  let next = performance.now() + watchMs;
  return async () => {
    const now = performance.now();
    if (now < next) return;
    if ((await fingerprint(live)) !== print) throw new SchemaChanged();
    const took = performance.now() - now;
    next = performance.now() + Math.max(watchMs, took / watchPart);
  };
}

/** The copy, and the fingerprint of what was copied. */
type Followed = Readonly<{ copy: Database; print: string }>;

export async function waitForRows(
  options: CopyOptions,
  { copy, print }: Followed,
  watch: Watch,
): Promise<void> {
  const { projectId, progress } = options;
  const stalled = openStall();
  const revive = openRevival(options, { copy, print });
  await waitFor(options, watch, async () => {
    const { done, all, copiedBytes, isEnabled } = await readSync(copy, projectId);
    progress(0.3 + 0.5 * (done / Math.max(1, all)));
    if (!isEnabled) await revive(String(done));
    if (stalled(`${done} ${copiedBytes}`))
      throw new NotOnline(
        'no rows were copied for a minute, perhaps because a transaction has been open for long',
      );
    return done === all;
  });
}

/**
 * A subscription that has met an error is disabled, and one that cannot connect tries for ever: neither shows in the slot, except
 * that its position stays where it is.
 */
export async function waitForLag(options: CopyOptions, followed: Followed, watch: Watch): Promise<void> {
  const stalled = openStall();
  const revive = openRevival(options, followed);
  let look = 0;
  /** Where it was when it was enabled again. It can fail at once for the same reason, whatever the lag. */
  let revivedAt: string | null = null;
  await waitFor(options, watch, async ({ confirmed, lagBytes }) => {
    const isDue = look % enabledEvery === 0;
    const isDisabled = isDue && !(await readSync(followed.copy, options.projectId)).isEnabled;
    // Only now: if the other server did not answer, the next look asks it again.
    look++;
    if (isDisabled) {
      [look, revivedAt] = [0, confirmed];
      await revive(confirmed);
      // It takes a moment to fail again: the next time it is looked at is a full round later.
      look++;
      return false;
    }
    if (isDue || confirmed !== revivedAt) revivedAt = null;
    if (lagBytes < smallLagBytes && revivedAt === null) return true;
    if (stalled(confirmed)) throw new NotOnline('the other server received nothing for a minute');
    return false;
  });
}

/** In the pause, the sender starts again and reads the log from where the slot keeps it. */
export async function shortenRestart(options: CopyOptions, followed: Followed): Promise<void> {
  const { from, to, signal } = options;
  const late = timeoutSignal(readyMs);
  const bounded = { ...options, signal: AbortSignal.any([signal, late]) };
  try {
    await waitForLag(bounded, followed, unwatched);
    await noteSnapshot(from);
    // If others write much more than this, the pause is a little longer.
    const until = performance.now() + restartMs;
    const isShort = async ({ keptBytes }: SlotState) =>
      keptBytes < smallKeptBytes || performance.now() > until;
    await waitFor(bounded, unwatched, isShort);
    await waitForLag(bounded, followed, unwatched);
  } catch (error) {
    if (!late.aborted || signal.aborted || error instanceof NotOnline || error instanceof SchemaChanged)
      throw error;
    throw new FellBehind(`${to.name} did not keep up with what is written on ${from.name}`);
  }
}
const [smallKeptBytes, restartMs, readyMs] = [2 * 1024 * 1024, 2_000, 30_000];

/** The session that compares catalogs has ended by then: the pause waits for every session of the source. */
export const unwatched = async () => {};

/** Tells whether the same was given for too long. */
function openStall(): (now: string) => boolean {
  let [seen, since] = ['', performance.now()];
  return (now) => {
    if (now !== seen) since = performance.now();
    seen = now;
    return performance.now() - since > moveStallMs;
  };
}

/**
 * PostgreSQL disables a subscription after any error, and a connection that breaks is one. Nothing tells them apart, so it is
 * enabled again, unless it gets no further. The target cannot apply a row of a table that has another column by now, such as when
 * one was added.
 */
function openRevival(
  { from, projectId, signal }: CopyOptions,
  { copy, print }: Followed,
): (position: string) => Promise<void> {
  let [last, attempts, inAll] = ['', 0, 0];
  return async (position) => {
    await checkUnchanged(from, projectId, print);
    if (position !== last) attempts = 0;
    last = position;
    if (++attempts > maxRevivals || ++inAll > maxRevivalsInAll) throw new NotOnline(hasStopped);
    await sleep(revivalMs, undefined, { signal });
    await enableSubscription(copy, projectId);
  };
}

async function waitFor(
  { projectId, from, to, signal }: CopyOptions,
  watch: Watch,
  isReached: (slot: SlotState) => Promise<boolean>,
): Promise<void> {
  const until = performance.now() + movePhaseMs;
  for (let answeredAt = performance.now(); ; await sleep(lookMs)) {
    signal.throwIfAborted();
    let slot: SlotState | null;
    try {
      slot = await readSlot(from, projectId);
      await watch();
      if (slot && (await isReached(slot))) return;
    } catch (error) {
      if (!isBreak(error) || performance.now() - answeredAt > awayMs) throw error;
      continue;
    }
    answeredAt = performance.now();
    if (!slot) throw new NotOnline(`${from.name} has given up the replication slot`);
    if (slot.keptBytes > maxKeptBytes || performance.now() > until)
      throw new NotOnline(`${to.name} did not keep up with what is written on ${from.name}`);
  }
}
