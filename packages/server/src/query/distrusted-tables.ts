// Tables that grew by more than the bound of their inserts (statement/growth-check.ts). That is a defect of Rowhouse: their inserts
// are never run without a size check again, by any process.
import type { Logger } from 'pino';
import type { Control } from '../control/control.ts';
import { sql } from '../postgres/sql.ts';
import { type Size, sizeQuery } from '../quotas/size-query.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import type { Servers } from '../servers/server.ts';
import type { InsertFacts } from './statement/insert-growth.ts';

export type DistrustedTables = {
  has(projectId: string, oid: number): Promise<boolean>;
  /** Distrusts the table unless somebody else is in the database, who may have made it grow. */
  judge(project: ProjectLogin, relation: string, facts: InsertFacts): void;
  /** How many this process has found. */
  found(): number;
};

type Deps = {
  control: Control;
  servers: Servers;
  /** The backends of this process's own sessions in the project. */
  pidsOf: (projectId: string, serverId: number) => readonly number[];
};

export function openDistrustedTables({ control, servers, pidsOf }: Deps, log: Logger): DistrustedTables {
  let found = 0;
  const isAlone = async ({ id, serverId }: ProjectLogin) => {
    const asked = sizeQuery(id, pidsOf(id, serverId));
    const [row] = await servers.of(serverId).maintenance.query<Size>(asked);
    return row?.others === 0;
  };
  const judge = async (project: ProjectLogin, relation: string, { guard, ...facts }: InsertFacts) => {
    if (!(await isAlone(project))) return;
    found++;
    log.error(
      { project: project.id, table: relation, facts },
      'an insert made its table larger than its bound; its inserts are measured from now on',
    );
    await control.query(sql`
      insert into distrusted_tables (project_id, relation) values (${project.id}, ${facts.oid})
      on conflict do nothing`);
  };
  return {
    has: async (projectId, oid) => {
      const rows = await control.query(sql`
        select 1 from distrusted_tables where project_id = ${projectId} and relation = ${oid}`);
      return rows.length > 0;
    },
    judge: (project, relation, facts) => {
      judge(project, relation, facts).catch((error) =>
        log.error({ err: error, project: project.id, table: relation }, 'a table could not be judged'),
      );
    },
    found: () => found,
  };
}
