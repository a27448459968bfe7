// The plan of a restore to a moment whose WAL may still be on its way to the storage.
import { errors } from '../../errors/errors.ts';
import type { Backups } from '../backups.ts';
import { lookAt } from '../fleet-backups.ts';
import type { Repository } from '../repository/repository.ts';
import { rangesOf } from '../restorable.ts';
import { checkStored, jobPatience, markPresent, requestPatience, untilStored } from './mark-present.ts';
import type { Origin } from './origin.ts';
import { type Plan, planRestore } from './plan.ts';
import type { Turn } from './restore-turns.ts';

export type Planned = {
  /** By what is stored when the restore is asked for. */
  plan: Plan;
  /** For the job: waits for what was missing then, and plans with it. */
  whole: (turn: Turn) => Promise<Plan>;
};

/** For a request, which does not wait for long. Rejects if the moment cannot be restored. */
export async function planProject(
  { backups, repository }: Pick<Origin, 'backups' | 'repository'>,
  target: Date,
): Promise<Planned> {
  if (!backups) {
    const plan = await planRestore(repository, target);
    if (target > plan.storedAt)
      throw errors.restoreOutOfRange(target, rangesOf((await lookAt(repository)).restorable));
    return { plan, whole: async () => plan };
  }
  const mark = await markPresent(backups, target);
  const state = await untilStored(backups, mark, requestPatience);
  if (state === 'stuck') await checkStored(backups, target);
  const plan = await planStored(backups, repository, target);
  const whole =
    state === 'storing'
      ? (turn: Turn) => planWhenStored({ backups, repository }, target, mark, turn)
      : async () => plan;
  return { plan, whole };
}

/** What is missing up to `mark` is stored in the end, or never will be. */
export async function planWhenStored(
  { backups, repository }: { backups: Backups; repository: Repository },
  target: Date,
  mark: bigint,
  { signal, touch }: Turn,
): Promise<Plan> {
  await untilStored(backups, mark, { ...jobPatience, signal, touch });
  return planStored(backups, repository, target, signal);
}

async function planStored(
  backups: Backups,
  repository: Repository,
  target: Date,
  signal?: AbortSignal,
): Promise<Plan> {
  const { timeline } = await backups.position();
  return planRestore(repository, target, { timeline, ...(signal && { signal }) });
}
