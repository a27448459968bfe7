// What is stored of servers that were removed. It is deleted when the newest of it is older than the retention. Nothing else
// in the storage is: a folder that is not known may belong to somebody else.
import type { Control } from '../control/control.ts';
import { findSetting } from '../control/settings.ts';
import { sql } from '../postgres/sql.ts';
import { namesOf } from './repository/repository.ts';
import type { Storage } from './storage/storage.ts';

type Removed = { cluster: string; removedAt: string };
type Options = { retentionDays: number; now: number };

const dayMs = 24 * 60 * 60 * 1000;

/** Returns the clusters of which nothing is left. */
export async function pruneRemoved(
  { control, storage }: { control: Control; storage: Storage },
  { retentionDays, now }: Options,
  signal: AbortSignal,
): Promise<string[]> {
  const removed = JSON.parse((await findSetting(control, 'removed_servers')) ?? '[]') as Removed[];
  const pruned: string[] = [];
  for (const { cluster, removedAt } of removed) {
    // An empty prefix would be everything.
    if (!/^\d+$/.test(cluster)) continue;
    // A server that was added again goes on where it ended.
    const [present] = await control.query(
      sql`select true as present from servers where system_identifier = ${cluster}`,
    );
    if (!present) {
      if (now - Date.parse(removedAt) < retentionDays * dayMs) continue;
      await storage.deleteAll(namesOf(storage.list(`${cluster}/`, signal)), signal);
      pruned.push(cluster);
    }
    await forget(control, cluster, removedAt);
  }
  return pruned;
}

async function forget(control: Control, cluster: string, removedAt: string): Promise<void> {
  await control.query(sql`
    update settings set value = (
      select coalesce(jsonb_agg(one), '[]')::text from jsonb_array_elements(value::jsonb) as one
      where (one ->> 'cluster', one ->> 'removedAt') <> (${cluster}::text, ${removedAt}::text))
    where name = 'removed_servers'`);
}
