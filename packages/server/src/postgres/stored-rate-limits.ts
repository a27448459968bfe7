// Token buckets in a table with the columns `id` (bytea) and `used_until`, the time at which the bucket is full again. They hold for all
// processes, and across restarts. Statements and parts of statements, because callers take from several buckets in one statement.
import type { Rate } from '../lib/rate-limits.ts';
import { type Sql, sql } from './sql.ts';

/** A bucket. Nothing is counted if the id is null. */
export type StoredBucket = Readonly<{ table: Sql; id: Sql; rate: Rate }>;

/** Takes one and returns a row; no row if there is none, or unless `condition`. */
export function takeStored(
  { table, id, rate: { burst, refillMs } }: StoredBucket,
  condition: Sql = sql`true`,
): Sql {
  return sql`
    insert into ${table} as kept (id, used_until)
    select ${id}::bytea, now() + ${interval(refillMs)} where ${id}::bytea is not null and ${condition}
    on conflict (id) do update set used_until = greatest(kept.used_until, now()) + ${interval(refillMs)}
    where kept.used_until <= now() + ${interval(refillMs * (burst - 1))}
    returning 1`;
}

/** Gives one back: it did not count. */
export function refundStored({ table, id, rate: { refillMs } }: StoredBucket): Sql {
  return sql`update ${table} set used_until = used_until - ${interval(refillMs)} where id = ${id}::bytea`;
}

/** In how many seconds there will be one, at least 1. null: nothing was counted yet. */
export function storedWait({ table, id, rate: { burst, refillMs } }: StoredBucket): Sql {
  return sql`(
    select greatest(1, ceil(extract(epoch from used_until - now() - ${interval(refillMs * (burst - 1))})))::int
    from ${table} where id = ${id}::bytea)`;
}

function interval(ms: number): Sql {
  return sql`interval ${sql.literal(`${ms} ms`)}`;
}
