// Where a project was before it was moved: its past is in the backups of those servers.
import type { Control } from '../control/control.ts';
import { sql } from '../postgres/sql.ts';

/** Servers that a project has left, by their system identifiers. Oldest first. */
export type PreviousServers = readonly { cluster: string; until: Date }[];

export function listPreviousServers(control: Control, projectId: string): Promise<PreviousServers> {
  return control.query<PreviousServers[number]>(sql`
    select system_identifier as cluster, until from former_servers where project_id = ${projectId} order by until`);
}

/** null: the project was on the server on which it is now. */
export function previousServerAt(previous: PreviousServers, at: Date): string | null {
  return previous.find(({ until }) => until > at)?.cluster ?? null;
}
