// The fence closes the database of a deleted project, or of a suspended account, to connections. Whatever changes one of
// the two, and the background work, sets it here.
import type { Control } from '../control/control.ts';
import { sql } from '../postgres/sql.ts';
import { fence, unfence } from '../servers/databases/connections.ts';
import type { Server } from '../servers/server.ts';

/** Whether the database of a row of `projects` must be closed. */
export const isClosed = sql`
  (projects.deleted_at is not null
   or exists (select from accounts where accounts.id = projects.account_id and (accounts.suspended_at is not null or accounts.deleted_at is not null)))`;

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
    const closed = await findClosed(control, id);
    if (closed === null || closed === isFenced) return;
    isFenced = closed;
    await (closed ? fence(server, id) : unfence(server, id));
  }
}

/** null: there is no such project. */
export async function findClosed(control: Control, id: string): Promise<boolean | null> {
  const [row] = await control.query<{ closed: boolean }>(
    sql`select ${isClosed} as closed from projects where id = ${id}`,
  );
  return row?.closed ?? null;
}
