// How a project is to be moved, and for how long its requests will wait.

import type { MoveProject } from '@rowhouse/api';
import { errors } from '../errors/errors.ts';
import { toMb } from '../lib/bytes.ts';
import type { ProjectRow } from '../projects/project.ts';
import { databaseOf } from '../servers/databases/names.ts';
import { openInside } from '../servers/databases/publication.ts';
import type { Server } from '../servers/server.ts';
import { checkServersFor, NotOnline, readContents } from './replicable.ts';

export type Plan = Readonly<{
  mode: 'online' | 'dump';
  /** Why not online. */
  reason?: string;
  expectedPauseMs: number;
}>;

/**
 * The facts that are known before the copy starts. An online move can still turn out to be impossible. `isClosed`: the database accepts
 * no connections.
 */
export async function planMove(
  project: ProjectRow,
  { from, to }: { from: Server; to: Server },
  { mode = 'auto' }: MoveProject,
  isClosed: boolean,
): Promise<Plan> {
  if (mode === 'dump') return byDump(project, 'the caller asked for a dump');
  if (isClosed) return notOnline(project, mode, 'its account is suspended');
  try {
    await checkServersFor(from, to);
    const inside = openInside(from, databaseOf(project.id));
    const { rest } = await readContents(inside).finally(() => inside.end());
    return { mode: 'online', expectedPauseMs: Math.round(onlineMs + expectRest(rest.bytes)) };
  } catch (error) {
    if (!(error instanceof NotOnline)) throw error;
    return notOnline(project, mode, error.message);
  }
}

/** Moves by a dump instead, unless the caller does not want that. */
export function notOnline(project: ProjectRow, mode: MoveProject['mode'], reason: string): Plan {
  if (mode !== 'online') return byDump(project, reason);
  throw errors.conflict(
    `The project cannot be moved online: ${reason}.`,
    'Change that, or move it with "mode": "dump".',
  );
}

function byDump({ stored_bytes }: ProjectRow, reason: string): Plan {
  return { mode: 'dump', reason, expectedPauseMs: Math.round(dumpMs + toMb(stored_bytes) * msPerMb) };
}

/**
 * Measured on two cores that a test run kept busy. Online, 88 MB under 8 writers (bench/moves.mjs): the slowest write of six moves
 * took 386 ms. By a dump, 77 MB with two indexes took 6.1 and 9.5 s: 80 to 125 ms a megabyte.
 */
const [onlineMs, dumpMs, msPerMb] = [400, 500, 100];

/** Large objects, unlogged tables and materialized views. Estimated as for a dump. */
const expectRest = (bytes: number) => (bytes > 0 ? dumpMs + (bytes / 1024 / 1024) * msPerMb : 0);

/**
 * The longest pause of a project whose account is suspended. Nobody waits for it, but other projects of the server wait for
 * their turn, and give up after ten minutes.
 */
const closedPauseMs = 5 * 60_000;

/** `isClosed`: its account is suspended. */
export function allowedPauseMs(isClosed: boolean, maxPauseMs: number): number {
  return isClosed ? Math.max(closedPauseMs, maxPauseMs) : maxPauseMs;
}

export function checkPause(
  { slug }: ProjectRow,
  plan: Plan,
  { isClosed, maxPauseMs }: { isClosed: boolean; maxPauseMs: number },
): void {
  const { expectedPauseMs, mode, reason } = plan;
  const allowedMs = allowedPauseMs(isClosed, maxPauseMs);
  if (expectedPauseMs <= allowedMs) return;
  if (isClosed)
    throw errors.conflict(
      `"${slug}" is too large to be moved while its account is suspended: a dump would take about ${expectedPauseMs} ms, which is longer than the ${allowedMs} ms that other projects of its server may have to wait.`,
      closedHint,
    );
  const why = mode === 'dump' ? ` It is moved by a dump: ${reason}.` : '';
  throw errors.conflict(
    `Requests of "${slug}" would wait for about ${expectedPauseMs} ms, which is longer than max_pause_ms allows.${why}`,
    openHint,
  );
}

export function tooLong(allowedMs: number, isClosed: boolean) {
  if (isClosed)
    return errors.conflict(`The dump took longer than ${allowedMs} ms, so the move was undone.`, closedHint);
  return errors.conflict(
    `Requests had waited for ${allowedMs} ms (max_pause_ms), so the move was undone.`,
    openHint,
  );
}

const openHint = 'Raise max_pause_ms, and move the project at a time when a pause does no harm.';
const closedHint =
  'Resume the account, move the project online, and suspend the account again. Or raise max_pause_ms.';
