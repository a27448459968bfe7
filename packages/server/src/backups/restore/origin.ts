// Where the backups of a project are: those of the server on which it was then. Of a server that does not answer, what is stored is enough to
// restore a project somewhere else.
import type { Control } from '../../control/control.ts';
import { errors } from '../../errors/errors.ts';
import { findVersion } from '../../servers/embedded/binaries.ts';
import type { Fleet } from '../../servers/fleet.ts';
import type { Server } from '../../servers/server.ts';
import type { Backups } from '../backups.ts';
import { clusterOf, type FleetBackups, requireBackups } from '../fleet-backups.ts';
import { listPreviousServers, previousServerAt } from '../previous-servers.ts';
import type { BackupDescription, Repository } from '../repository/repository.ts';
import { silent } from '../server-status.ts';

export type Origin = {
  repository: Repository;
  /** null: the server does not answer. */
  backups: Backups | null;
  /** How its projects were made. */
  marks: Pick<Server, 'masterKey' | 'installation' | 'userRoles'>;
};

type Deps = { control: Control; backups: FleetBackups; servers: Fleet };
type Wanted = { projectId: string; serverId: number; target: Date };

/** Rejects if the server is not backed up. */
export async function findOrigin(deps: Deps, { projectId, serverId, target }: Wanted): Promise<Origin> {
  const { control, backups, servers } = deps;
  const previous = previousServerAt(await listPreviousServers(control, projectId), target);
  const member = servers
    .members()
    .find((one) => (previous === null ? one.row.id === serverId : clusterOf(one) === previous));
  if (member?.server && member.isAnswering) {
    const own = await requireBackups(backups, member.server);
    return { repository: await own.repository(), backups: own, marks: member.server };
  }
  const repository =
    previous === null ? member && backups.repositoryOf(member) : backups.repositoryNamed(previous);
  if (!repository) throw errors.unavailable(silent(member?.row.name ?? String(serverId)).reason);
  return { repository, backups: null, marks: servers.first };
}

/** The server of a project, if it answers. */
export function findHome(servers: Fleet, serverId: number): Server | null {
  const member = servers.members().find(({ row }) => row.id === serverId);
  return member?.isAnswering ? member.server : null;
}

/** A backup can only be replayed by PostgreSQL of the same major version. */
export function findVersionProblem({ postgres }: Pick<BackupDescription, 'postgres'>): string | null {
  const present = findVersion();
  if (present === null) return 'There are no PostgreSQL programs on the machine of the service.';
  if (majorOf(present) === majorOf(postgres)) return null;
  return `The backup is of PostgreSQL ${postgres}, and the service has the programs of PostgreSQL ${present}.`;
}

export function checkVersion(tip: Pick<BackupDescription, 'postgres'>): void {
  const problem = findVersionProblem(tip);
  if (problem === null) return;
  throw errors.restoreUnavailable(
    `A single project cannot be restored from these backups. ${problem}`,
    'Restore that PostgreSQL server with its own tools, beside the present one. Then export the project there and import it.',
  );
}

function majorOf(version: string): string {
  return version.split('.')[0] ?? version;
}
