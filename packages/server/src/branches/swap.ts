// Exchanges the databases of two projects. Renaming them and recording the result are two transactions; the row in `swaps`
// is committed before both, so that the background work can complete what a crash has interrupted.
import { recordChange } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { isState, type Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { settleFence } from '../projects/fence.ts';
import { discard } from '../servers/databases/drops.ts';
import { endReplication } from '../servers/databases/publication.ts';
import { databaseOid, settledOid, swapDatabases } from '../servers/databases/swap-databases.ts';
import type { Server } from '../servers/server.ts';
import type { Copy } from './copy.ts';
import type { ServerBranchDeps } from './deps.ts';
import { whilePaused } from './pause.ts';
import { ifNoneRuns, requireHere } from './server-turns.ts';

/**
 * reset: `other` is a copy of the parent, which becomes the project; the old database is dropped. promote: `other` is a
 * branch, which the project becomes; the branch gets the old database and is deleted, so that it can be undeleted.
 */
export type Swap = Readonly<{ kind: 'reset' | 'promote'; projectId: string; otherId: string }>;

/** Called in turn. `copy`: of a reset. */
export async function swap(
  deps: ServerBranchDeps,
  { kind, projectId, otherId }: Swap,
  copy: Copy | null = null,
): Promise<void> {
  const { control, server } = deps;
  await settleAll(deps, deps.onError);
  const held = kind === 'reset' ? [projectId] : [projectId, otherId];
  // Without its database a project would look like one that was exchanged.
  await requireHere(deps, held);
  for (const id of held) await endLeftReplication(server, id);
  const done = kind === 'reset' ? 'reset' : 'promoted';
  const [projectOid, otherOid] = await Promise.all([
    databaseOid(server, projectId),
    databaseOid(server, otherId),
  ]);
  await control.change(sql`
    insert into swaps (project_id, other_id, kind, project_oid, other_oid, template, empty_bytes, size_bytes)
    values (${projectId}, ${otherId}, ${kind}, ${projectOid}, ${otherOid}, ${copy?.template ?? null},
            ${copy?.emptyBytes ?? null}::float8::bigint, ${copy?.bytes ?? null}::float8::bigint)`);
  try {
    await whilePaused(deps, held, { done }, async () => {
      await checkPending(control, { kind, projectId, otherId });
      const logins = [await loginOf(control, projectId), await loginOf(control, otherId)] as const;
      await swapDatabases(server, ...logins);
      await record(control, { kind, projectId, otherId });
      for (const id of held) deps.forget(id);
    });
  } catch (error) {
    // Nothing was exchanged, or it was and only the recording failed.
    const oid = await settle(deps, { kind, projectId, otherId, projectOid: projectOid ?? 0 }).catch(
      (failure) => {
        throw errors.outcomeUnknown(failure);
      },
    );
    if (oid === projectOid) throw error;
  }
  await tidy(deps, { kind, otherId }).catch(deps.onError);
}

/**
 * Ends the replication that an undone move left: it belongs to the database, and its note to the name, which is about to
 * change.
 */
async function endLeftReplication(server: Server, id: string): Promise<void> {
  await endReplication(server, id).catch((error) => {
    if (!isState(error, sqlstate.lockNotAvailable)) throw error;
    throw errors.conflict(
      'A statement of the project holds a lock on a table that a move has left to be tidied up.',
      'Try again when the statement has ended.',
    );
  });
}

type Pending = Swap & { projectOid: number };

/** One pass of the background work: completes or forgets what a process that died has begun. */
export async function settleSwaps(deps: { control: Control; server: Server }): Promise<void> {
  if ((await findPending(deps)).length === 0) return;
  const failures: unknown[] = [];
  await ifNoneRuns(deps, () => settleAll(deps, (error) => failures.push(error)));
  if (failures.length > 0) throw failures[0];
}

async function settleAll(
  deps: { control: Control; server: Server },
  onError: (error: unknown) => void,
): Promise<void> {
  for (const pending of await findPending(deps)) {
    await settle(deps, pending);
    await tidy(deps, pending).catch(onError);
  }
}

function findPending({ control, server }: { control: Control; server: Server }): Promise<Pending[]> {
  return control.query<Pending>(sql`
    select swaps.kind, swaps.project_id as "projectId", swaps.other_id as "otherId",
           swaps.project_oid::int8::float8 as "projectOid"
    from swaps join projects on projects.id = swaps.project_id and projects.server_id = ${server.id}`);
}

/** Returns which database the project has. */
async function settle(deps: { control: Control; server: Server }, pending: Pending): Promise<number | null> {
  const oid = await settledOid(deps.server, pending.projectId);
  if (oid !== pending.projectOid) await record(deps.control, pending);
  else await deps.control.change(sql`delete from swaps where project_id = ${pending.projectId}`);
  return oid;
}

/** Does nothing if it was recorded before. */
function record(control: Control, { kind, projectId, otherId }: Swap): Promise<void> {
  return control.transaction(async (transaction) => {
    const [mine] = await transaction.query<Facts>(sql`
      delete from swaps where project_id = ${projectId} and other_id = ${otherId}
      returning template, empty_bytes, size_bytes`);
    if (!mine) return;
    if (kind === 'reset') await recordReset(transaction, projectId, otherId, mine);
    else await recordPromotion(transaction, projectId, otherId);
    await transaction.query(recordChange({ projectId }));
    await transaction.query(recordChange({ projectId: otherId }));
  });
}

type Facts = { template: string | null; empty_bytes: string | null; size_bytes: string | null };

async function recordReset(
  transaction: Queryable,
  projectId: string,
  copyId: string,
  { template, empty_bytes, size_bytes }: Facts,
): Promise<void> {
  await transaction.query(sql`
    update projects set template = ${template}, empty_bytes = ${empty_bytes}, size_bytes = ${size_bytes}
    where id = ${projectId}`);
  await transaction.query(sql`update spares set state = 'dropping' where id = ${copyId}`);
}

async function recordPromotion(transaction: Queryable, projectId: string, branchId: string): Promise<void> {
  await transaction.query(sql`
    update projects set template = others.template, empty_bytes = others.empty_bytes, size_bytes = others.size_bytes,
                        deleted_at = case when projects.id = ${branchId} then now() else projects.deleted_at end,
                        expires_at = case when projects.id = ${branchId} then null else projects.expires_at end
    from projects as others
    where (projects.id, others.id) in ((${projectId}, ${branchId}), (${branchId}, ${projectId}))`);
  // Branches of the branch have the same contents as the project now.
  await transaction.query(sql`update projects set parent_id = ${projectId} where parent_id = ${branchId}`);
}

/** What may fail without harm: the background work does it as well. */
async function tidy(
  deps: { control: Control; server: Server },
  { kind, otherId }: Pick<Swap, 'kind' | 'otherId'>,
): Promise<void> {
  await (kind === 'reset' ? discard(deps, otherId) : settleFence(deps, otherId));
}

/** If the session with the lock of server-turns.ts was lost, another process may have settled this one. */
async function checkPending(control: Control, { projectId, otherId }: Swap): Promise<void> {
  const [row] = await control.query(
    sql`select true as "isThere" from swaps where project_id = ${projectId} and other_id = ${otherId}`,
  );
  if (!row) throw errors.unavailable('The connection that held the lock was lost.');
}

async function loginOf(control: Control, id: string): Promise<{ id: string; passwordVersion: number }> {
  const [row] = await control.query<{ id: string; passwordVersion: number }>(sql`
    select id, password_version as "passwordVersion" from projects where id = ${id} and deleted_at is null
    union all
    select id, 1 from spares where id = ${id} and state = 'making'`);
  if (!row) throw errors.conflict('The project was deleted meanwhile.', 'Restore it first.');
  return row;
}
