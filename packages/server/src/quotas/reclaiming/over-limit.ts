// Reclaims space in projects that are over their limit although no statement runs in them: a killed process never reclaimed
// what its statement had written, and VACUUM adds maps to tables. Part of the background work, after sizes are measured.
import type { Control } from '../../control/control.ts';
import { sql } from '../../postgres/sql.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import type { Server } from '../../servers/server.ts';
import type { Reclaim } from './reclaim.ts';

type Deps = { control: Control; server: Server; reclaim: Reclaim; now: () => number };
type Project = Omit<ProjectLogin, 'accountId'>;

export type OverLimit = { reclaim(): Promise<void> };

/** A statement may exceed the limit temporarily: only a project that is over it at two checks in a row is reclaimed. */
const looksBefore = 2;
/**
 * Dead rows of the catalog are reported up to ten seconds late, so the first attempts may find nothing to reclaim. A project
 * that stays over its limit stores that much, most likely because its limit was lowered: the attempts become rare.
 */
const againMs = (attempts: number) => Math.min(5 * 60_000, 2_500 * 2 ** attempts);
const atOnce = 8;

export function openOverLimit({ control, server, reclaim, now }: Deps): OverLimit {
  const found = new Map<string, { looks: number; attempts: number; triedAt: number }>();
  return {
    reclaim: async () => {
      const projects = await control.query<Project>(sql`
        select id, server_id as "serverId", password_version as "passwordVersion" from projects
        where server_id = ${server.id} and deleted_at is null and size_bytes - empty_bytes > limit_mb * bigint '1048576'`);
      const over = new Set(projects.map(({ id }) => id));
      for (const id of found.keys()) if (!over.has(id)) found.delete(id);
      const due = projects.filter(({ id }) => {
        const seen = found.get(id) ?? { looks: 0, attempts: 0, triedAt: Number.NEGATIVE_INFINITY };
        found.set(id, seen);
        return ++seen.looks >= looksBefore && now() - seen.triedAt > againMs(seen.attempts);
      });
      for (const project of due.slice(0, atOnce)) {
        const attempts = (found.get(project.id)?.attempts ?? 0) + 1;
        found.set(project.id, { looks: 0, attempts, triedAt: now() });
        void reclaim.run({ ...project, accountId: null });
      }
    },
  };
}
