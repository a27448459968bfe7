// The wall behind the bound of an insert: a bound that is wrong commits nothing, and its table never has one again.
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import type { Bound } from '../../src/query/insert-bounds.ts';
import { until, useTestService } from '../support/helpers.ts';
import { countGrants, newSmallProject, type SmallProject, untilGranted } from './small-projects.ts';

const rowhouse = useTestService();
let grants: { count: number };
let project: SmallProject;
/** What the bounds are made into: as if a type had been judged wrongly. */
let change: (bound: Bound) => Bound = (bound) => bound;

beforeAll(() => {
  grants = countGrants(rowhouse);
  const { insertBounds } = rowhouse.service.deps.query;
  const { find } = insertBounds;
  insertBounds.find = (...given) => {
    const found = find(...given);
    return found && change(found);
  };
});
beforeEach(async () => {
  change = (bound) => bound;
  project = await newSmallProject(rowhouse, 16);
  await project.fine('create table t (a text)');
  await project.fine('alter table t alter a set storage external');
});

const tooLittle = (bound: Bound): Bound => ({ ...bound, bytes: 100, most: 100 });
const insertInto = (table: string, bytes: number) =>
  project.fine(`insert into ${table} values ($1)`, [randomBytes(bytes / 2).toString('hex')]);
const short = () => insertInto('t', 10);
const counted = async () => {
  const { body } = await rowhouse.call('GET', '/metrics');
  return Number(/^rowhouse_insert_bounds_exceeded (\d+)$/m.exec(String(body))?.[1]);
};
const distrusted = async () => {
  const rows = await rowhouse.service.deps.control.query<{ relation: number }>(
    sql`select relation::int8::int from distrusted_tables where project_id = ${project.id}`,
  );
  return rows.length;
};
const countRows = async (table: string) =>
  (await project.fine(`select count(*)::int as count from ${table}`)).rows[0].count;

describe('an insert that adds more than its bound', () => {
  it('is undone and runs again with a size check; its table is never trusted again', async () => {
    await project.fine('create table other (a text)');
    await untilGranted(grants, short);
    await untilGranted(grants, () => insertInto('other', 10));
    const before = await counted();
    const rows = await countRows('t');
    change = tooLittle;
    let added = 0;
    await until('one is found out', async () => {
      await Promise.all(Array.from({ length: 10 }, () => insertInto('t', 30_000)));
      added += 10;
      return (await distrusted()) > 0;
    });
    change = (bound) => bound;
    expect(await countRows('t')).toBe(rows + added);
    expect(await counted()).toBe(before + 1);
    const { insertBounds } = rowhouse.service.deps.query;
    const login = { id: project.id, serverId: 1, passwordVersion: 1, accountId: null };
    const insert = { relation: '"public"."t"', rows: 1, constantBytes: 0 };
    // By another name it is the same table, and it is learned anew.
    insertBounds.find(login, insert, []);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(insertBounds.find(login, insert, [])).toBeNull();
    const granted = grants.count;
    for (let n = 0; n < 20; n++) await short();
    expect(grants.count).toBe(granted);
    await untilGranted(grants, () => insertInto('other', 10));
    expect(await counted()).toBe(before + 1);
  });

  it('never takes its project over the limit, although its bound is a lie', async () => {
    await untilGranted(grants, short);
    change = tooLittle;
    let peak = 0;
    for (let refused = 0; refused < 5; ) {
      const answers = await Promise.all(
        Array.from({ length: 20 }, () =>
          project.run('insert into t values ($1)', [randomBytes(15_000).toString('hex')]),
        ),
      );
      refused += answers.filter(({ status }) => status === 507).length;
      expect(answers.filter(({ status }) => status !== 200 && status !== 507)).toEqual([]);
      peak = Math.max(peak, await project.storedMb());
    }
    expect(peak).toBeLessThanOrEqual(16);
    expect(await distrusted()).toBe(1);
  });
});

describe('a table that grows by somebody else', () => {
  it('during the inserts is not distrusted', async () => {
    await untilGranted(grants, short);
    const before = await counted();
    const { body } = await rowhouse.call('GET', `/projects/${project.slug}/connection`);
    const client = new pg.Client({ connectionString: body.connection.url });
    await client.connect();
    let isOver = false;
    const stream = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (!isOver) await short();
      }),
    );
    try {
      for (let n = 0; n < 10; n++) {
        await client.query("insert into t select repeat('x', 1000) from generate_series(1, 200)");
        await project.fine("insert into t select repeat('x', 1000) from generate_series(1, 200)");
      }
    } finally {
      isOver = true;
      await stream;
      await client.end();
    }
    expect(await counted()).toBe(before);
    await untilGranted(grants, short);
    expect(await distrusted()).toBe(0);
  });
});
