// The first server was not embedded, and its restored copy is: the service finds its projects under the same name.

import { openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { embedSuperuser } from '../../servers/embedded/embed.ts';
import type { RecoveryServer } from '../../servers/embedded/recovery-server.ts';

/**
 * `server`: the name of the first server, which stays. `reindex`: the slugs of projects whose texts this machine may sort in
 * another order than their indexes do.
 */
export type Embedded = { server: string; reindex: string[] };

type Request = { controlDatabase: string; masterKey: Buffer };

export async function embed(
  { controlDatabase, masterKey }: Request,
  { address, database }: Pick<RecoveryServer, 'address' | 'database'>,
): Promise<Embedded> {
  await embedSuperuser(database, masterKey);
  const control = openDatabase({ ...address, database: controlDatabase }, { max: 1 });
  try {
    const [first] = await control.query<{ name: string }>(sql`
      insert into settings (name, value)
      select 'first_server', name from servers where address is null
      on conflict (name) do update set value = excluded.value
      returning value as name`);
    const reindex = await control.query<{ slug: string }>(sql`
      select slug from projects join pg_database on datname = 'p_' || projects.id
      where datcollversion is distinct from pg_database_collation_actual_version(pg_database.oid)
      order by slug`);
    return { server: first?.name ?? '', reindex: reindex.map(({ slug }) => slug) };
  } finally {
    await control.end();
  }
}
