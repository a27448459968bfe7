// What a restore to a moment needs: which backups, which WAL, how much of both, and whether that moment is kept.

import { errors } from '../../errors/errors.ts';
import { mb } from '../../lib/bytes.ts';
import { readBackups } from '../repository/descriptions.ts';
import type { Repository } from '../repository/repository.ts';
import { findRestorable, listRestorable, listWal, type Restorable, rangesOf } from '../restorable.ts';
import { isKept } from './lay-out.ts';

export type Plan = Pick<Restorable, 'chain' | 'tip' | 'from' | 'end' | 'storedAt' | 'isClosed'>;

/** For an estimate. 4,000 MB of WAL took 75 and 80 s, with everything else that a restore does. The other two rates are assumed. */
const layOutBytesPerS = 60 * mb;
const replayBytesPerS = 56 * mb;
const loadBytesPerS = 15 * mb;
const startS = 4;

/** Rejects with a conflict that names what can be restored. `at`: null for the last moment. `timeline`: see listRestorable. */
export async function planRestore(
  repository: Repository,
  at: Date | null,
  { timeline, signal }: { timeline?: number; signal?: AbortSignal } = {},
): Promise<Plan> {
  const { backups } = await readBackups(repository, signal);
  const restorable = listRestorable(backups, await listWal(repository, backups, signal), timeline);
  const found = findRestorable(restorable, at);
  if (!found) throw errors.restoreOutOfRange(at, rangesOf(restorable));
  return found;
}

export type Amounts = { layOutBytes: number; walBytes: number; projectBytes: number };

/** `oid`: of the project's database; null if it was created after the backup. */
export function amountsOf(plan: Plan, keep: ReadonlySet<number> | null, oid: number | null): Amounts {
  const parts = plan.chain.flatMap((backup) => backup.parts).filter(({ name }) => isKept(name, keep));
  const own = parts.filter(({ name }) => oid !== null && name === `db-${oid}.tar`);
  const sum = (list: readonly { bytes: number }[]) => list.reduce((total, { bytes }) => total + bytes, 0);
  return { layOutBytes: sum(parts), walBytes: Number(plan.end - plan.from), projectBytes: sum(own) };
}

/** Most of the WAL between the newest backup and the present lies before the target, or it would be replayed in part only. */
export function foretellSeconds({ layOutBytes, walBytes, projectBytes }: Amounts, share: number): number {
  const seconds =
    layOutBytes / layOutBytesPerS + (share * walBytes) / replayBytesPerS + projectBytes / loadBytesPerS;
  return Math.ceil(startS + seconds);
}

/** How much of the stored WAL since the newest backup has to be replayed, by the time that has passed. From 0 to 1. */
export function shareOf(plan: Plan, at: Date, now: number): number {
  const since = new Date(plan.tip.ended_at).getTime();
  return Math.min(1, Math.max(0, (at.getTime() - since) / Math.max(1, now - since)));
}
