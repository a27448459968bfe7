// The limits of projects on a further server, where the guard over direct sessions (direct-guard.ts) can read them. On the
// first server it reads the control database itself. Another server cannot, so a small database there has a copy of the
// rows of those projects that have a session now. Unlogged: after a crash it is filled again.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Control } from '../../control/control.ts';
import { type Database, isState, openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { commentOf } from '../../servers/databases/names.ts';
import type { Server } from '../../servers/server.ts';
import { openWithoutPublic } from '../../servers/template/template.ts';

export type LimitsCopy = {
  /** It has the table `public.projects`. */
  readonly database: Database;
  /** Copies changes until `ended`. Rejects when one of the two servers does not answer. */
  follow(ended: AbortSignal): Promise<void>;
};

type Limits = { id: string; size_bytes: string; empty_bytes: string; limit_mb: number; deleted: boolean };

/** A direct session of a project that is not copied yet is not watched for this long. */
const copyMs = 250;

/** Names its installation: several can use the same server. */
export const limitsDatabaseOf = ({ installation }: Pick<Server, 'installation'>) =>
  `rowhouse_limits_${installation.replaceAll('-', '').slice(0, 16)}`;

export async function openLimitsCopy(control: Control, server: Server): Promise<LimitsCopy> {
  const name = limitsDatabaseOf(server);
  await ensureDatabase(server, name);
  const database = openDatabase({ ...server.address, database: name }, { max: 2, queryMs: 10_000 });
  const prepare = database.change(sql`
    create unlogged table if not exists projects (
      id text primary key, server_id integer not null, size_bytes bigint not null, empty_bytes bigint not null,
      limit_mb integer not null, deleted_at timestamptz
    )`);
  await prepare.catch(async (error) => {
    await database.end();
    throw error;
  });
  let copied = new Map<string, string>();

  const copy = async () => {
    const present = await database.query<{ id: string }>(sql`
      select distinct substr(datname, 3) as id from pg_stat_activity where datname like 'p\\_%'`);
    const ids = [...new Set([...present.map(({ id }) => id), ...copied.keys()])];
    if (ids.length === 0) return;
    const rows = await control.query<Limits>(sql`
      select id, size_bytes, empty_bytes, limit_mb, deleted_at is not null as deleted
      from projects where server_id = ${server.id} and id = any (${ids}::text[])`);
    const texts = new Map(rows.map((row) => [row.id, JSON.stringify(row)]));
    const changed = rows.filter(({ id }) => copied.get(id) !== texts.get(id));
    for (const row of changed) await put(database, server.id, row);
    const gone = [...copied.keys()].filter((id) => !texts.has(id));
    if (gone.length > 0) await database.query(sql`delete from projects where id = any (${gone}::text[])`);
    copied = texts;
  };

  return {
    database,
    follow: async (ended) => {
      // What was copied before may be gone after a crash of the server.
      copied = new Map();
      await database.query(sql`delete from projects`);
      while (!ended.aborted) {
        await copy();
        await sleep(copyMs, undefined, { signal: ended }).catch(() => {});
      }
    },
  };
}

async function ensureDatabase(server: Server, name: string): Promise<void> {
  const { maintenance } = server;
  const [found] = await maintenance.query(sql`select 1 from pg_database where datname = ${name}`);
  if (!found) {
    const id = sql.id(name);
    await maintenance
      .change(sql`create database ${id} template template0 encoding 'UTF8' allow_connections false`)
      .catch((error) => {
        if (!isState(error, sqlstate.duplicateDatabase)) throw error;
      });
    await maintenance.change(sql`comment on database ${id} is ${sql.literal(commentOf(server))}`);
  }
  await openWithoutPublic(maintenance, name);
}

async function put(database: Database, serverId: number, row: Limits): Promise<void> {
  const { id, size_bytes, empty_bytes, limit_mb, deleted } = row;
  await database.query(sql`
    insert into projects (id, server_id, size_bytes, empty_bytes, limit_mb, deleted_at)
    values (${id}, ${serverId}, ${size_bytes}, ${empty_bytes}, ${limit_mb}, case when ${deleted} then now() end)
    on conflict (id) do update
    set size_bytes = excluded.size_bytes, empty_bytes = excluded.empty_bytes, limit_mb = excluded.limit_mb,
        deleted_at = excluded.deleted_at`);
}
