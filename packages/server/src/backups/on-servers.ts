// Work on the backups of one server or of all, as an operator asks for it. A server that fails does not keep the others from
// their turn.
import { errors, RowhouseError } from '../errors/errors.ts';
import type { Fleet } from '../servers/fleet.ts';
import type { Backups } from './backups.ts';
import { describeFailure } from './failure.ts';
import type { FleetBackups } from './fleet-backups.ts';
import type { Pruned } from './prune.ts';
import type { BackupDescription } from './repository/repository.ts';
import { chooseMembers, silent } from './server-status.ts';
import { type Verified, verify } from './verify.ts';

type Deps = { backups: FleetBackups; servers: Fleet };
type Run = { signal: AbortSignal; progress: (fraction: number) => void };
export type TakenBackup = { server: string; backup: BackupDescription };

/** At least one. Of all servers, those that cannot be backed up now are left out; a named one rejects. */
export async function chooseUsable({ backups, servers }: Deps, name: string | null): Promise<Backups[]> {
  const usable: Backups[] = [];
  for (const { row, server, isAnswering } of chooseMembers(servers, name)) {
    if (server?.holdsControl) usable.push(backups.of(server));
    else if (server && isAnswering) {
      const problem = await backups.findProblem(server).catch((error: unknown) => {
        // It has just gone away. The others must be backed up all the same.
        if (name === null && error instanceof RowhouseError && error.code === 'unavailable')
          return silent(row.name);
        throw error;
      });
      if (!problem) usable.push(backups.of(server));
      else if (name !== null) throw errors.restoreUnavailable(problem.reason, problem.hint);
    } else if (name !== null) throw errors.unavailable(silent(row.name).reason);
  }
  return usable;
}

/** Those whose stored backups can be read: the server itself is not asked. */
export function chooseStored({ backups, servers }: Deps, name: string | null): Backups[] {
  const found = chooseMembers(servers, name).flatMap(({ server }) => (server ? [backups.of(server)] : []));
  if (found.length === 0) throw errors.unavailable(silent(name ?? '').reason);
  return found;
}

/** `name`: of the server. */
type Verifiable = { name: string; verify(run: Run): Promise<Verified> };

/** A server that has not answered since the start is known by what is stored alone. */
export function chooseVerifiable({ backups, servers }: Deps, name: string | null): Verifiable[] {
  const found = chooseMembers(servers, name).flatMap((member): Verifiable[] => {
    const { server, row } = member;
    if (server) return [{ name: row.name, verify: backups.of(server).verify }];
    const repository = backups.repositoryOf(member);
    if (!repository) return [];
    const verifyStored = (run: Run) =>
      verify(repository, run).catch((error: unknown) => {
        throw describeFailure(error);
      });
    return [{ name: row.name, verify: verifyStored }];
  });
  if (found.length === 0) throw errors.unavailable(silent(name ?? '').reason);
  return found;
}

/** One server after the other. */
export function takeOn(
  chosen: readonly Backups[],
  kind: 'full' | 'incremental',
  run: Run,
): Promise<TakenBackup[]> {
  return oneAfterOther(chosen, run, async (backups, own) => ({
    server: backups.server.name,
    backup: await backups.take(kind, own),
  }));
}

export async function verifyOn(chosen: readonly Verifiable[], run: Run): Promise<Verified> {
  const found = await oneAfterOther(chosen, run, async (one, own) => {
    const { problems, ...verified } = await one.verify(own);
    const of = chosen.length > 1 ? `${one.name}: ` : '';
    return { ...verified, problems: problems.map((problem) => `${of}${problem}`) };
  });
  const sum = (name: 'backups' | 'segments' | 'bytes') => found.reduce((total, one) => total + one[name], 0);
  return {
    backups: sum('backups'),
    segments: sum('segments'),
    bytes: sum('bytes'),
    problems: found.flatMap(({ problems }) => problems),
  };
}

export async function pruneOn(chosen: readonly Backups[], run: Run): Promise<Pruned> {
  const found = await oneAfterOther(chosen, run, (backups, { signal }) => backups.prune(signal));
  const sum = (name: 'segments' | 'unfinished') => found.reduce((total, one) => total + one[name], 0);
  return {
    segments: sum('segments'),
    unfinished: sum('unfinished'),
    backups: found.flatMap(({ backups }) => backups),
  };
}

/** Rejects with the first failure, when all had their turn. */
async function oneAfterOther<One, T>(
  chosen: readonly One[],
  { signal, progress }: Run,
  act: (one: One, run: Run) => Promise<T>,
): Promise<T[]> {
  const done: T[] = [];
  const failures: unknown[] = [];
  for (const [at, one] of chosen.entries()) {
    const own = { signal, progress: (part: number) => progress((at + part) / chosen.length) };
    await act(one, own).then(
      (result) => done.push(result),
      (error: unknown) => failures.push(error),
    );
    signal.throwIfAborted();
  }
  if (failures.length > 0) throw failures[0];
  return done;
}
