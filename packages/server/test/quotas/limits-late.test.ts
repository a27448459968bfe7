// A statement that comes to the limit is tried again where there may be more room now. If its time ends in the second try, its
// caller hears of the limit, which is the reason, and not of the time.
import { expect, it } from 'vitest';
import { until, useTestService } from '../support/helpers.ts';
import { newSmallProject } from './small-projects.ts';

const rowhouse = useTestService();

it('a statement whose second try runs out of time is told that the project is full', {
  timeout: 60_000,
}, async () => {
  const [project, neighbour] = [await newSmallProject(rowhouse, 8), await newSmallProject(rowhouse, 8)];
  await project.fine('create table t (a text)');
  await project.fine('create sequence tries');
  // A sequence keeps what a statement that was undone has taken from it: only the second try takes long.
  const query = `insert into t select repeat('x', 1000) from generate_series(1, 20000 + length(
    pg_sleep(case nextval('tries') when 1 then 0 else 30 end)::text))`;
  await until(
    'it was tried twice',
    async () => {
      await project.fine('alter sequence tries restart');
      await project.fine("insert into t select repeat('x', 1000) from generate_series(1, 2000)");
      await project.fine('delete from t');
      const { status, body } = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
        key: project.key,
        body: { query, timeout_ms: 4_000 },
      });
      expect([status, body.error?.code], JSON.stringify(body)).toEqual([507, 'project_full']);
      return (await project.fine('select last_value from tries')).rows[0].last_value === 2;
    },
    50_000,
  );
  expect((await project.fine('select count(*) from t')).rows).toEqual([{ count: 0 }]);
  expect((await neighbour.fine('select 1 as one')).rows).toEqual([{ one: 1 }]);
});
