// What a restore to a moment needs: which backups, which WAL, how much of both, and whether that moment is kept.
import { errors } from '../../errors.ts';
import { parseLsn } from '../../postgres/lsn.ts';
import { type BackupDescription, chainOf, findChain, listBackups, type Repository } from '../repository.ts';
import { continuousEnd, listSegments } from '../wal-archive.ts';
import { isKept } from './lay-out.ts';

export type Plan = Readonly<{
  chain: readonly BackupDescription[];
  tip: BackupDescription;
  /** WAL from the start of the newest backup up to the end of what is stored without a gap. */
  from: bigint;
  end: bigint;
}>;

/** `newest`: null while the WAL of the newest backup is incomplete. */
export type Range = { oldest: Date | null; newest: Date | null };

const mb = 1024 * 1024;
/** For an estimate. Replay was measured at about 60 MB of WAL a second; the other two rates are assumed. */
const layOutBytesPerS = 60 * mb;
const replayBytesPerS = 60 * mb;
const loadBytesPerS = 15 * mb;
const startS = 4;

/**
 * Rejects with a conflict that names the range if `at` is outside of it. `timeline`: of the server whose past is wanted. Later
 * ones are those of a copy that was restored from these backups and stores into the same place.
 */
export async function planRestore(
  repository: Repository,
  at: Date,
  { timeline = Number.POSITIVE_INFINITY, signal }: { timeline?: number; signal?: AbortSignal } = {},
): Promise<Plan> {
  const backups = (await listBackups(repository)).filter((backup) => backup.timeline <= timeline);
  const chain = findChain(backups, at);
  const tip = chain?.at(-1);
  if (!chain || !tip) throw errors.restoreOutOfRange(at, await rangeOf(repository, backups));
  const segments = await listSegments(repository, tip.timeline, { signal });
  const from = parseLsn(tip.start_lsn);
  const end = continuousEnd(segments, from, tip.timeline, tip.segment_bytes);
  if (end === null || end < parseLsn(tip.end_lsn))
    throw errors.restoreOutOfRange(at, await rangeOf(repository, backups));
  return { chain, tip, from, end };
}

/** From the end of the oldest backup whose ancestors are there to the last WAL after the newest one. */
export async function rangeOf(repository: Repository, backups: readonly BackupDescription[]): Promise<Range> {
  const usable = backups.filter((backup) => chainOf(backups, backup) !== null);
  const [oldest, tip] = [usable[0], usable.at(-1)];
  if (!oldest || !tip) return { oldest: null, newest: null };
  const segments = await listSegments(repository, tip.timeline);
  return { oldest: new Date(oldest.ended_at), newest: segments.at(-1)?.storedAt ?? null };
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
