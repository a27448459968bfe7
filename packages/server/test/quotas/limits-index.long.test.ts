// An index that a project near its limit has no room for.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';
import { newSmallProject } from './small-projects.ts';

const rowhouse = useTestService();

it.each([
  ['a table larger than what may be rewritten', 48, 64, 'create index on t (b)'],
  ['a table in the reserve', 27, 29, 'create index on t (b)'],
  ['a table in the reserve, with another way', 25, 29, 'create index on t using hash (b)'],
  ['a small table', 20, 32, 'create index on t (b)'],
  ['a wide index', 20, 32, "create index on t ((b || 'x'), (b || 'y'))"],
  ['a unique index, while rows were deleted before', 40, 60, 'create unique index on t (b, a)'],
])('%s: its space is given back before the answer', async (_name, filledMb, limitMb, query) => {
  const project = await newSmallProject(rowhouse, 200);
  await project.fine('create table t (a int, b text)');
  const rows = Math.floor((filledMb * 1024 * 1024) / 540);
  const { body } = await project.run(
    `insert into t select n, (select string_agg(md5((n * m)::text), '') from generate_series(1, 15) as m)
     from generate_series(1, ${rows}) as n`,
  );
  expect(body.ok, JSON.stringify(body)).toBe(true);
  await project.fine('delete from t where a % 50 = 0');
  const lowered = { body: { limit_mb: limitMb } };
  expect((await rowhouse.call('PATCH', `/projects/${project.slug}`, lowered)).status).toBe(200);
  let peak = 0;
  let isOver = false;
  const looking = (async () => {
    while (!isOver) {
      peak = Math.max(peak, await project.storedMb());
      await sleep(5);
    }
  })();
  const answer = await project.run(query);
  const after = await project.measure();
  isOver = true;
  await looking;
  expect(answer.status, JSON.stringify(answer.body)).toBe(507);
  // It is not even copied to make room where there is nothing to gain.
  expect(peak).toBeLessThanOrEqual(limitMb + 16);
  expect(after.mb).toBeLessThanOrEqual(limitMb);
  await sleep(1_500);
  expect(await project.storedMb()).toBeLessThanOrEqual(limitMb);
  await project.fine('select count(*) from t');
});
