// What is stored of each server, for the operator. A server that does not answer, or that cannot be backed up any more, is
// described by the storage alone.

import { errors, RowhouseError } from '../errors/errors.ts';
import type { Fleet, Member } from '../servers/fleet.ts';
import type { Server } from '../servers/server.ts';
import type { BackupStatus } from './backups.ts';
import { type FleetBackups, lookAt } from './fleet-backups.ts';
import type { NotBackedUp } from './problem.ts';
import type { DamagedBackup } from './repository/descriptions.ts';
import type { BackupDescription } from './repository/repository.ts';
import { type Range, rangesOf } from './restorable.ts';

export type ServerStatus = {
  name: string;
  /** null: it has not been reached. */
  server: Server | null;
  problem: NotBackedUp | null;
  backups: BackupDescription[];
  damaged: DamagedBackup[];
  ranges: Range[];
  lagSeconds: number | null;
  lagBytes: number | null;
  lastVerifiedAt: string | null;
};

type Deps = { backups: FleetBackups; servers: Fleet };

/** The first server first. `name`: of one server. null: all. */
export async function listServerStatus(deps: Deps, name: string | null): Promise<ServerStatus[]> {
  return Promise.all(chooseMembers(deps.servers, name).map((member) => describe(deps, member)));
}

/** At least one. */
export function chooseMembers(servers: Fleet, name: string | null): Member[] {
  const found = servers.members().filter(({ row }) => name === null || row.name === name);
  if (found.length === 0)
    throw errors.invalidRequest([{ path: 'server', problem: `there is no server "${name}"` }]);
  return found;
}

async function describe({ backups }: Deps, member: Member): Promise<ServerStatus> {
  const { server, isAnswering, row } = member;
  if (!server || !isAnswering)
    return describeStored(backups, member, row.state === 'detached' ? detached(row.name) : silent(row.name));
  if (server.holdsControl) return fromStatus(server, await backups.of(server).status());
  try {
    const problem = await backups.findProblem(server);
    if (problem) return await describeStored(backups, member, problem);
    return fromStatus(server, await backups.of(server).status());
  } catch (error) {
    // It has just gone away. The others must be listed all the same.
    if (!(error instanceof RowhouseError) || error.code !== 'unavailable') throw error;
    return describeStored(backups, member, silent(row.name));
  }
}

export function silent(name: string): NotBackedUp {
  return {
    reason: `The server "${name}" does not answer.`,
    hint: 'Start it, or check the network. If it is lost, restore its projects into new ones on other servers.',
  };
}

function detached(name: string): NotBackedUp {
  return {
    reason: `The server "${name}" is detached since a restore.`,
    hint: `If no other service uses it: rowhouse servers attach ${name}.`,
  };
}

async function describeStored(
  backups: FleetBackups,
  member: Member,
  problem: NotBackedUp,
): Promise<ServerStatus> {
  const { server, row } = member;
  const repository = backups.repositoryOf(member);
  const stored = repository ? await lookAt(repository) : { backups: [], damaged: [], restorable: [] };
  return {
    name: row.name,
    server,
    problem,
    backups: stored.backups,
    damaged: stored.damaged,
    ranges: rangesOf(stored.restorable),
    lagSeconds: null,
    lagBytes: null,
    lastVerifiedAt: server ? await backups.of(server).lastVerifiedAt() : null,
  };
}

function fromStatus(server: Server, status: BackupStatus): ServerStatus {
  const { backups, damaged, usable, restorable, slot, newestStoredAt, lastVerifiedAt, problem, now } = status;
  const isCurrent = slot?.restart != null && slot.lagBytes === 0;
  const behindSeconds = newestStoredAt && (now.getTime() - newestStoredAt.getTime()) / 1000;
  return {
    name: server.name,
    server,
    problem,
    backups,
    damaged,
    lastVerifiedAt,
    ranges: rangesOf(restorable, usable.length > 0 ? (isCurrent ? now : newestStoredAt) : null),
    lagSeconds: isCurrent ? 0 : (slot?.confirmSeconds ?? behindSeconds),
    lagBytes: slot?.lagBytes ?? null,
  };
}
