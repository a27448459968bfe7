// Creates a project: one statement claims a spare database and inserts the project and its key, so a project exists
// either completely or not at all.

import type { CreateProject, Project } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { errors, RowhouseError } from '../errors/errors.ts';
import type { Caller } from '../keys/caller.ts';
import { newProjectKey } from '../keys/manage.ts';
import { isState } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { claimSpare } from '../servers/databases/spares.ts';
import type { Fleet } from '../servers/fleet.ts';
import type { Server } from '../servers/server.ts';
import { defaultLimitMb } from '../settings/limits/projects.ts';
import { withinLimits } from './account-limits.ts';
import { type ProjectRow, projectColumns, toProject } from './project.ts';
import { slugFromName } from './slug.ts';

type Deps = {
  control: Control;
  servers: Fleet;
  limits: { maxLimitMb: number; keepDeletedDays: number };
};

type Origin = {
  /** Who gets the project key, and counts as its issuer. */
  issuer: Caller | null;
  /** The job that fills the project. Until it is done, the project cannot be used. */
  filledBy?: string | null;
  parentId?: string | null;
  expiresAt?: Date | null;
  /** The server that it must be on, such as that of the parent of a branch. */
  serverId?: number;
};

export type CreatedProject = { project: Project; apiKey: string; serverId: number };

const slugAttempts = 8;
const answerMs = 2_000;

export async function createProject(
  { control, servers, limits }: Deps,
  accountId: string,
  input: CreateProject,
  { issuer, filledBy = null, parentId = null, expiresAt = null, serverId }: Origin,
): Promise<CreatedProject> {
  const limitMb = input.limit_mb ?? Math.min(defaultLimitMb, limits.maxLimitMb);
  checkLimit(limitMb, limits.maxLimitMb);
  const name = input.name.trim();
  const { server: wanted, labels } = input;
  const without = new Set<number>();
  const choose = () =>
    serverId === undefined
      ? servers.place({
          limitMb,
          without,
          ...(wanted !== undefined && { server: wanted }),
          ...(labels && { labels }),
        })
      : { server: servers.of(serverId), spares: servers.sparesOf(serverId) };
  let { server, spares } = choose();
  for (let attempt = 0; attempt < slugAttempts; ) {
    const slug = input.slug ?? slugFromName(name, attempt);
    try {
      const facts = { accountId, slug, name, limitMb, filledBy, parentId, expiresAt };
      const claimed = await withinLimits(
        control,
        accountId,
        { projects: 1, mb: limitMb },
        (database, issuedBy) => claim(database, server, { ...facts, issuedBy }),
        issuer,
      );
      if (claimed) {
        spares.fill();
        const project = toProject(claimed.row, limits.keepDeletedDays);
        return { project, apiKey: claimed.apiKey, serverId: server.id };
      }
      await spares.makeOne(accountId);
    } catch (error) {
      if (isState(error, sqlstate.uniqueViolation) && error.constraint === 'projects_slug_key') {
        if (input.slug !== undefined) throw errors.slugTaken(input.slug);
        attempt++;
        continue;
      }
      // This server cannot make a database now. Another one may.
      without.add(server.id);
      const canRetry = serverId === undefined && servers.all().length > without.size;
      if (!(error instanceof RowhouseError && error.code === 'unavailable' && canRetry)) throw error;
      ({ server, spares } = choose());
    }
  }
  throw errors.conflict('No free slug could be derived from this name.', 'Choose one with "slug".');
}

type Facts = Required<Omit<Origin, 'issuer' | 'serverId'>> & {
  accountId: string;
  issuedBy: string | null;
  slug: string;
  name: string;
  limitMb: number;
};

/** null: the server has no spare ready. */
async function claim(
  control: Pick<Control, 'change'>,
  server: Server,
  { accountId, issuedBy, slug, name, limitMb, filledBy, parentId, expiresAt }: Facts,
): Promise<{ row: ProjectRow; apiKey: string } | null> {
  const { insert, apiKey } = newProjectKey(
    server.masterKey,
    sql`${issuedBy}::text, account_id, id from project`,
  );
  // A spare can be claimed although its server has failed a moment ago.
  if (!server.holdsControl) await server.maintenance.query(sql`select 1`, answerMs);
  const [row] = await control.change<ProjectRow>(sql`
    with spare as (${claimSpare(server)}),
    project as (
      insert into projects (id, account_id, server_id, slug, name, limit_mb, template, empty_bytes, size_bytes,
                            filled_by, parent_id, expires_at)
      select id, ${accountId}, server_id, ${slug}, ${name}, ${limitMb}, template, empty_bytes, empty_bytes,
             ${filledBy}, ${parentId}, ${expiresAt}
      from spare
      returning *
    ),
    key as (${insert})
    select ${projectColumns} from project as projects`);
  return row ? { row, apiKey } : null;
}

export function checkLimit(limitMb: number, maxLimitMb: number): void {
  if (limitMb > maxLimitMb) {
    throw errors.invalidRequest([
      { path: 'limit_mb', problem: `must be at most ${maxLimitMb}, the limit of this installation` },
    ]);
  }
}
