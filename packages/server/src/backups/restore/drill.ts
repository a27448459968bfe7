// A drill: restores one project aside and compares every table with the live one. Only this proves that backups can be
// restored. Projects take turns.
import path from 'node:path';
import { findSetting } from '../../control/settings.ts';
import { ensureDumpRole } from '../../engine/dump-role.ts';
import { databaseOf } from '../../engine/provision.ts';
import { RowhouseError } from '../../errors.ts';
import { AskError } from '../../postgres/ask.ts';
import type { Address } from '../../postgres/database.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import type { Backups } from '../backups.ts';
import { type Fingerprint, fingerprint } from './fingerprint.ts';
import { jobPatience, markPresent, untilStored } from './mark-present.ts';
import { planRestore } from './plan.ts';
import { recoverProject } from './recover-project.ts';
import { checkSpace, inTurn, openWorkshop, removeLeft } from './restore-job.ts';
import type { RestoreDeps } from './restores.ts';

export type Drill = {
  slug: string;
  /** Tables that did not change meanwhile, so that they could be compared. */
  compared: number;
  /** Tables that changed: they were read, but not compared. */
  changed: number;
  problems: string[];
  seconds: number;
};

/** How much of the whole is done when the tables are compared. */
const recoveredPart = 0.9;

export type DrilledProject = { id: string; slug: string; isCopy: boolean };

export async function runDrill(
  deps: RestoreDeps,
  place: { dataFolder: string; backups: Backups },
  project: DrilledProject,
  { signal, progress = () => {} }: { signal: AbortSignal; progress?: (fraction: number) => void },
): Promise<Drill> {
  const startedAt = performance.now();
  const folder = path.join(place.dataFolder, 'restores', `drill-${project.id}`);
  const result = await inTurn(deps.control, signal, async (either) => {
    await removeLeft(path.dirname(folder));
    const live = await ensureDumpRole(deps.server, project.id);
    const before = await look(live, either);
    const target = await now(deps);
    const mark = await markPresent(place.backups, deps.server, target);
    await untilStored(place.backups, deps.server, mark, { ...jobPatience, signal: either });
    const repository = await place.backups.repository();
    const { timeline } = await place.backups.position();
    const restored = await recoverProject(
      {
        ...{ repository, target, signal: either, projectId: project.id, isCopy: project.isCopy },
        plan: await planRestore(repository, target, { timeline, signal: either }),
        workshop: openWorkshop(deps, { ...place, folder }),
        checkSpace: (bytes) => checkSpace(deps.disk, bytes),
        progress: (fraction) => progress(fraction * recoveredPart),
      },
      async ({ server: { address, database } }) => {
        await database.change(
          sql`alter database ${sql.id(databaseOf(project.id))} with allow_connections true`,
        );
        const { masterKey, userRoles, installation } = deps.server;
        const server = { address, maintenance: database, masterKey, userRoles, installation };
        return fingerprint(await ensureDumpRole(server, project.id), either);
      },
    );
    return compare(before, await look(live, either), restored);
  });
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  return { slug: project.slug, ...result, seconds };
}

/**
 * The live project. Its tables may be locked, an export may run, a right may be revoked meanwhile, or a row may be too large to be
 * written out: then nothing is known about the backups.
 */
async function look(live: Address, signal: AbortSignal): Promise<Fingerprint> {
  const overdue = AbortSignal.timeout(maxLookMs);
  return fingerprint(live, AbortSignal.any([signal, overdue])).catch((error: unknown) => {
    if (overdue.aborted) throw new BusyProject(new Error('Reading its tables took too long.'));
    throw error instanceof RowhouseError || error instanceof AskError ? new BusyProject(error) : error;
  });
}

/** Other restores wait meanwhile. */
const maxLookMs = 2 * 60 * 60_000;

export class BusyProject extends Error {
  override readonly name = 'BusyProject';

  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

/**
 * What was the same before and after must be the same in between. A table that was renamed, or hidden, and then changed back
 * differs in between as well: so a difference counts only if no definition has changed.
 */
export function compare(before: Fingerprint, after: Fingerprint, restored: Fingerprint) {
  const problems: string[] = [];
  let [compared, changed] = [0, 0];
  for (const [name, { rows, sum }] of before.tables) {
    const copy = restored.tables.get(name);
    const isSame = after.tables.get(name)?.sum === sum;
    if (!isSame || (copy?.sum !== sum && before.definitions !== after.definitions)) {
      changed++;
      continue;
    }
    compared++;
    if (!copy) problems.push(`${name} is missing`);
    else if (copy.sum !== sum)
      problems.push(`${name} has ${copy.rows} rows that differ from the ${rows} it had`);
  }
  return { compared, changed, problems };
}

/** Projects take turns by id. null: there is none. */
export async function chooseNext({ control, server }: RestoreDeps): Promise<DrilledProject | null> {
  const last = (await findSetting(control, 'drilled_project')) ?? '';
  const [next] = await control.query<DrilledProject>(sql`
    ${projectsOf(server.id)} order by id <= ${last}, id limit 1`);
  return next ?? null;
}

/** null: it was deleted, is not ready, or is on a server that is not backed up. */
export async function findDrilled(
  { control, server }: RestoreDeps,
  id: string,
): Promise<DrilledProject | null> {
  const [found] = await control.query<DrilledProject>(sql`${projectsOf(server.id)} and id = ${id}`);
  return found ?? null;
}

function projectsOf(serverId: number): Sql {
  return sql`
    select id, slug, parent_id is not null as "isCopy" from projects
    where server_id = ${serverId} and deleted_at is null and filled_by is null`;
}

async function now({ server }: RestoreDeps): Promise<Date> {
  const [row] = await server.maintenance.query<{ now: Date }>(sql`select clock_timestamp() as now`);
  return row?.now ?? new Date(0);
}
