// A drill: restores one project aside and compares every table with the live one. Only this proves that backups can be
// restored. The projects of a server take turns.
import path from 'node:path';
import type { Control } from '../../control/control.ts';
import { newId } from '../../control/new-id.ts';
import { findSetting, settingOf } from '../../control/settings.ts';
import { RowhouseError } from '../../errors/errors.ts';
import { Stalled } from '../../lib/stall-watch.ts';
import { timeoutSignal } from '../../lib/timeout-signal.ts';
import type { Address } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { AskError } from '../../postgres/wire/ask.ts';
import { ensureDumpRole } from '../../servers/databases/dump-role.ts';
import { databaseOf } from '../../servers/databases/names.ts';
import type { Server } from '../../servers/server.ts';
import type { Backups } from '../backups.ts';
import type { RestoreDeps } from '../restore/deps.ts';
import { asDumpServer } from '../restore/dump-recovered.ts';
import { markPresent } from '../restore/mark-present.ts';
import { planWhenStored } from '../restore/plan-stored.ts';
import { recoverProject } from '../restore/recover-project.ts';
import { checkSpace, openWorkshop, removeLeft } from '../restore/restore-job.ts';
import { restoreInTurn, type Turn } from '../restore/restore-turns.ts';
import { type Fingerprint, fingerprint } from './table-checksums.ts';

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

export type DrilledProject = { id: string; slug: string; serverId: number; isCopy: boolean };

export async function runDrill(
  deps: RestoreDeps,
  place: { dataFolder: string; backups: Backups },
  project: DrilledProject,
  { signal, progress = () => {} }: { signal: AbortSignal; progress?: (fraction: number) => void },
): Promise<Drill> {
  const startedAt = performance.now();
  const folder = path.join(place.dataFolder, 'restores', `drill-${newId()}`);
  const result = await restoreInTurn(
    deps.control,
    { account: null, signal, stallMs: deps.stallMs },
    async (turn) => {
      const { signal: either, touch } = turn;
      await removeLeft(path.dirname(folder));
      const { backups, dataFolder } = place;
      const live = await ensureDumpRole(backups.server, project.id);
      const before = await look(live, turn, backups.server);
      const target = await now(backups.server);
      const mark = await markPresent(backups, target);
      const repository = await backups.repository();
      const plan = await planWhenStored({ backups, repository }, target, mark, turn);
      const origin = { repository, backups, marks: backups.server };
      const restored = await recoverProject(
        {
          repository,
          plan,
          target,
          signal: either,
          projectId: project.id,
          isCopy: project.isCopy,
          workshop: await openWorkshop(deps, { dataFolder, folder, origin }, plan),
          checkSpace: (bytes) => checkSpace(deps.disk, bytes),
          progress: (fraction) => {
            touch(fraction);
            progress(fraction * recoveredPart);
          },
        },
        async ({ server: { address, database } }) => {
          await database.change(
            sql`alter database ${sql.id(databaseOf(project.id))} with allow_connections true`,
          );
          const server = await asDumpServer({ address, database }, backups.server);
          return fingerprint(await ensureDumpRole(server, project.id), turn);
        },
      );
      return compare(before, await look(live, turn, backups.server), restored);
    },
  );
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  return { slug: project.slug, ...result, seconds };
}

/**
 * The live project. Its tables may be locked, an export may run, a right may be revoked meanwhile, or a row may be too large to be
 * written out, or a table may give nothing for a long time: then nothing is known about the backups.
 */
async function look(live: Address, { signal, touch }: Turn, server: Server): Promise<Fingerprint> {
  const overdue = timeoutSignal(maxLookMs);
  const either = AbortSignal.any([signal, overdue]);
  return fingerprint(live, { signal: either, touch }).catch(async (error: unknown) => {
    const { reason } = signal;
    if (reason instanceof Stalled && (await isAnswering(server)))
      throw new BusyProject(reason, 'Reading its tables made no progress.');
    signal.throwIfAborted();
    if (overdue.aborted) throw new BusyProject(new Error('Reading its tables took too long.'));
    throw error instanceof RowhouseError || error instanceof AskError ? new BusyProject(error) : error;
  });
}

/** Then it is the project that stalls. */
async function isAnswering({ maintenance }: Server): Promise<boolean> {
  return maintenance.query(sql`select 1`, answerMs).then(
    () => true,
    () => false,
  );
}
const answerMs = 10_000;

/** Other restores wait meanwhile. */
const maxLookMs = 2 * 60 * 60_000;

export class BusyProject extends Error {
  override readonly name = 'BusyProject';

  constructor(cause: Error, message = cause.message) {
    super(message, { cause });
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

/** The projects of a server take turns by id. null: there is none. */
export async function chooseNext(control: Control, server: Server): Promise<DrilledProject | null> {
  const last = (await findSetting(control, settingOf('drilled_project', server))) ?? '';
  const [next] = await control.query<DrilledProject>(sql`
    ${projects} and server_id = ${server.id} order by id <= ${last}, id limit 1`);
  return next ?? null;
}

/** null: it was deleted, or is not ready. */
export async function findDrilled(control: Control, id: string): Promise<DrilledProject | null> {
  const [found] = await control.query<DrilledProject>(sql`${projects} and id = ${id}`);
  return found ?? null;
}

const projects = sql`
  select id, slug, server_id as "serverId", parent_id is not null as "isCopy" from projects
  where deleted_at is null and filled_by is null`;

async function now({ maintenance }: Server): Promise<Date> {
  const [row] = await maintenance.query<{ now: Date }>(sql`select clock_timestamp() as now`);
  return row?.now ?? new Date(0);
}
