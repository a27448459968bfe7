// Closes and opens the databases of an account's projects, as its state asks for. The rows are changed before: whatever fails
// here, the background work does later.
import type { Control } from '../../control/control.ts';
import { sql } from '../../postgres/sql.ts';
import { settleFence } from '../../projects/fence.ts';
import type { Logins } from '../../projects/logins.ts';
import type { Servers } from '../../servers/server.ts';

type Deps = { control: Control; servers: Servers; logins: Logins };

/** How many projects are closed at once, on all servers together. */
const atOnce = 4;

export async function projectsOf(control: Control, accountId: string): Promise<string[]> {
  const rows = await control.query<{ id: string }>(
    sql`select id from projects where account_id = ${accountId} and deleted_at is null`,
  );
  return rows.map(({ id }) => id);
}

export async function closeProjects(
  { control, servers, logins }: Deps,
  ids: readonly string[],
): Promise<void> {
  const left = [...ids];
  const closeNext = async (): Promise<void> => {
    for (let id = left.pop(); id !== undefined; id = left.pop()) {
      logins.forget(id);
      await settle({ control, servers }, id).catch(() => {});
    }
  };
  await Promise.all(Array.from({ length: atOnce }, closeNext));
}

async function settle({ control, servers }: Omit<Deps, 'logins'>, id: string): Promise<void> {
  const [row] = await control.query<{ serverId: number }>(
    sql`select server_id as "serverId" from projects where id = ${id}`,
  );
  if (row) await settleFence({ control, server: servers.of(row.serverId) }, id);
}
