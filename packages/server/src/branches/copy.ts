// A copy of a project's database, with roles of its own. The row of a spare is committed before the database exists and is
// replaced by the row of a project at the end, so that a crash at any step leaves a whole branch or, once the background
// work has tidied up the spare, nothing.

import type { Control } from '../control/control.ts';
import { newId } from '../control/new-id.ts';
import { errors } from '../errors/errors.ts';
import { toMb } from '../lib/bytes.ts';
import { sql } from '../postgres/sql.ts';
import { withCopier } from '../servers/databases/copy-database.ts';
import { discard } from '../servers/databases/drops.ts';
import { databaseOf } from '../servers/databases/names.ts';
import { sizeOf } from '../servers/databases/provision.ts';
import { ensureRoles } from '../servers/databases/roles.ts';
import { takeOver } from '../servers/databases/take-over.ts';
import type { ServerBranchDeps } from './deps.ts';
import { whilePaused } from './pause.ts';
import { requireHere } from './server-turns.ts';

export type Copy = Readonly<{ id: string; template: string; emptyBytes: number; bytes: number }>;

/** Called in turn. `use` makes the copy a project. If it fails, the copy is dropped. `done`: see pause.ts. */
export async function withCopy<T>(
  deps: ServerBranchDeps,
  sourceId: string,
  done: string,
  use: (copy: Copy) => Promise<T>,
): Promise<T> {
  const { control, server } = deps;
  await requireHere(deps, [sourceId]);
  await deps.ensureCurrent(sourceId);
  await checkDisk(deps, sourceId);
  // Read before the copy: an upgrade that happens meanwhile is then made in the copy as well.
  const facts = await readFacts(control, sourceId);
  const id = newId();
  await control.change(sql`
    insert into spares (id, server_id, state, template) values (${id}, ${server.id}, 'making', ${server.template})`);
  try {
    await withCopier(server, (copier) => {
      const prepare = async () => {
        await Promise.all([copier.prepare(sourceId), ensureRoles(server, id)]);
      };
      const copy = () => copier.copy(databaseOf(sourceId), databaseOf(id));
      return whilePaused(deps, [sourceId], { prepare, done }, copy);
    });
    await keep(control, id);
    await takeOver(server, sourceId, id);
    return await use({ id, ...facts, bytes: await sizeOf(server, id) });
  } catch (error) {
    await discard({ control, server }, id).catch(deps.onError);
    throw error;
  }
}

/** A spare that is being made for too long counts as abandoned. */
export async function keep(control: Control, id: string): Promise<void> {
  const [row] = await control.query(sql`
    update spares set created_at = now() where id = ${id} and state = 'making' returning id`);
  if (!row) throw errors.unavailable('The copy took too long and was dropped.');
}

/** A copy by cloning would need less, but whether the file system clones is known only afterwards. */
async function checkDisk({ diskOf, server }: ServerBranchDeps, sourceId: string): Promise<void> {
  const disk = diskOf(server.id);
  await disk.look();
  const facts = disk.facts();
  if (!facts) return;
  const bytes = await sizeOf(server, sourceId);
  if (facts.freeBytes - bytes < facts.reserveBytes)
    throw errors.serverFull({ free_mb: toMb(facts.freeBytes), reserve_mb: toMb(facts.reserveBytes) });
}

async function readFacts(control: Control, id: string): Promise<Pick<Copy, 'template' | 'emptyBytes'>> {
  const [row] = await control.query<{ template: string; emptyBytes: number }>(sql`
    select template, empty_bytes::float8 as "emptyBytes" from projects where id = ${id} and deleted_at is null`);
  if (!row) throw errors.conflict('The project was deleted meanwhile.', 'Restore it first.');
  return row;
}
