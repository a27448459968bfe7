import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { run } from '../support/exports.ts';
import { importDump, useImports } from '../support/importing.ts';

// Dumps by the programs of earlier versions (dumps/README.md).
const rowhouse = useImports();

const looks = `select (select md5(string_agg(t::text, '|' order by id)) from teas t) as teas, (select count(*)::int from sales) as sales,
  (select count(*)::int from cheap) as cheap, (select n::int from counted) as counted, (select at::text from tagged) as at,
  (select count(*)::int from pg_policies) as policies, (select count(*)::int from pg_trigger where not tgisinternal) as triggers,
  obj_description('teas'::regclass) as comment, convert_from(lo_get(4711), 'UTF8') as large,
  obj_description(4711, 'pg_largeobject') as "large comment", longest(name order by id) filter (where id < 3) as longest,
  (select count(*)::int from "Odd name"."a ""b""") as odd from teas`;

it.each([
  ['14', 'dump'],
  ['14', 'sql'],
  ['16', 'dump'],
  ['16', 'sql'],
  ['17', 'dump'],
  ['17', 'sql'],
])('a dump of pg_dump %s (%s) is imported whole', { timeout: 30_000 }, async (version, ending) => {
  const file = path.join(import.meta.dirname, 'dumps', `pg_dump-${version}.${ending}`);
  const { project, job } = await importDump(rowhouse, readFileSync(file));
  expect(job.error).toBeNull();
  expect(job.result).toMatchObject({ tables: 5, rows: 71 });
  // Grants to a role of the other server.
  const reasons = job.result.skipped.map(({ reason }: { reason: string }) => reason);
  expect(reasons).toEqual(Array(2).fill('The role "reader" does not exist here.'));
  expect((await run(rowhouse, project, looks)).rows).toEqual([
    {
      teas: 'db95fd0560a4d400c458f086b57b8eb3',
      sales: 20,
      cheap: 9,
      counted: 50,
      policies: 1,
      triggers: 1,
      at: '["2026-01-01 00:00:00+00","2026-02-01 00:00:00+00")',
      comment: 'All teas',
      large: 'large',
      'large comment': 'A large object',
      odd: 0,
      longest: 'tea 1tea 2',
    },
  ]);
});
