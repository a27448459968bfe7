import { expect, it, onTestFinished } from 'vitest';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import {
  refundStored,
  type StoredBucket,
  storedWait,
  takeStored,
} from '../../src/postgres/stored-rate-limits.ts';
import { address } from '../support/helpers.ts';

const rate = { burst: 3, refillMs: 6_000 };

/** A table of its own, in which time passes when it is told. */
async function storedBuckets() {
  const database = openDatabase(address(), { max: 4 });
  const table = sql.id(`buckets_${Math.random().toString(36).slice(2)}`);
  await database.query(sql`create table ${table} (id bytea primary key, used_until timestamptz not null)`);
  onTestFinished(async () => {
    await database.query(sql`drop table ${table}`);
    await database.end();
  });
  const bucket = (name: string | null): StoredBucket => ({
    table,
    rate,
    id: sql`${name && Buffer.from(name)}`,
  });
  const take = async (name: string | null, condition?: boolean) => {
    const only = condition === undefined ? undefined : sql`${condition}`;
    return (await database.query(takeStored(bucket(name), only))).length === 1;
  };
  return {
    take,
    taken: async (name: string, times: number) =>
      (await Promise.all(Array.from({ length: times }, () => take(name)))).filter(Boolean).length,
    refund: (name: string) => database.query(refundStored(bucket(name))),
    wait: async (name: string) => {
      const [row] = await database.query<{ wait: number | null }>(
        sql`select ${storedWait(bucket(name))} as wait`,
      );
      return row?.wait;
    },
    pass: (ms: number) =>
      database.query(sql`update ${table} set used_until = used_until - ${ms}::float8 * interval '1 ms'`),
    count: async () => (await database.query(sql`select from ${table}`)).length,
  };
}

it('gives the burst to as many as come at once, then one in each refill time', async () => {
  const { taken, pass } = await storedBuckets();
  expect(await taken('a', 12)).toBe(3);
  expect(await taken('b', 12)).toBe(3);
  await pass(6_000);
  expect(await taken('a', 12)).toBe(1);
  await pass(3_600_000);
  expect(await taken('a', 12)).toBe(3);
});

it('tells the seconds until there is one, and gives back what did not count', async () => {
  const { taken, take, refund, wait } = await storedBuckets();
  expect(await wait('a')).toBeNull();
  await taken('a', 3);
  expect(await wait('a')).toBe(6);
  await refund('a');
  expect(await wait('a')).toBe(1);
  expect([await take('a'), await take('a')]).toEqual([true, false]);
});

it('counts nothing without an id, or unless the condition holds', async () => {
  const { take, count } = await storedBuckets();
  expect([await take(null), await take('a', false)]).toEqual([false, false]);
  expect(await count()).toBe(0);
  expect(await take('a', true)).toBe(true);
});
