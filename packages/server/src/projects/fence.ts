// A deleted project's database lets nobody in; a live one's does. Deleting, restoring and the keeper all come here.
import type { Control } from '../control/control.ts';
import { fence, unfence } from '../engine/provision.ts';
import type { Server } from '../engine/servers.ts';
import { sql } from '../postgres/sql.ts';

/**
 * Does what the row says, and looks again: whoever is last to act has seen the last word, so a deletion and a restoring
 * at once end as one of them. No lock is held meanwhile, because the project can keep us waiting.
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
