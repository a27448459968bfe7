// The fence closes the database of a deleted project to connections. Deletion, restoration and the background work all
// set it here.
import type { Control } from '../control/control.ts';
import { fence, unfence } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { sql } from '../postgres/sql.ts';

/**
 * Applies the state of the row, then reads the row again: the last process to act has seen the final state, so a
 * concurrent deletion and restoration end in one of the two. No lock is held meanwhile, because the project can make
 * this wait.
 */
export async function settleFence(
  { control, server }: { control: Control; server: Server },
  id: string,
): Promise<void> {
  let isFenced: boolean | null = null;
  for (;;) {
    const [row] = await control.query<{ deleted: boolean }>(
      sql`select deleted_at is not null as deleted from projects where id = ${id}`,
    );
    if (!row || row.deleted === isFenced) return;
    isFenced = row.deleted;
    await (row.deleted ? fence(server, id) : unfence(server, id));
  }
}
