// Deletes projects whose time is over. Like any deleted project, they can be undeleted for some days.
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { sql } from '../postgres/sql.ts';
import type { Server } from '../servers/server.ts';
import { settleFence } from './fence.ts';

export function checkExpiry(expiresAt: string | null | undefined, now: number): void {
  if (expiresAt != null && !(Date.parse(expiresAt) > now))
    throw errors.invalidRequest([{ path: 'expires_at', problem: 'must be in the future' }]);
}

/** One pass of the background work. Returns how many were deleted. */
export async function deleteExpired({
  control,
  server,
}: {
  control: Control;
  server: Server;
}): Promise<number> {
  const rows = await control.change<{ id: string }>(sql`
    with expired as (
      update projects set deleted_at = now()
      where id in (
        select id from projects
        where server_id = ${server.id} and expires_at <= now() and deleted_at is null and filled_by is null
          -- Nobody could save it: it is deleted once its account can be used again.
          and not exists (
            select from accounts where accounts.id = projects.account_id and accounts.suspended_at is not null)
        order by expires_at limit 20
      ) and deleted_at is null and expires_at <= now()
      returning id
    ),
    change as (insert into changes (project_id) select id from expired)
    select id from expired`);
  // Each by itself: where it fails now, reconcile.ts closes the database later.
  const closed = await Promise.allSettled(rows.map(({ id }) => settleFence({ control, server }, id)));
  for (const one of closed) if (one.status === 'rejected') throw one.reason;
  return rows.length;
}
