// Projects with a small limit_mb, for the tests of bounded inserts.
import { expect } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { asAdmin, type TestService, until } from '../support/helpers.ts';

const mb = 1024 * 1024;

export type SmallProject = Awaited<ReturnType<typeof newSmallProject>>;

export async function newSmallProject(rowhouse: TestService, limitMb: number) {
  const { body } = await rowhouse.call('POST', '/projects', { body: { name: 'Small', limit_mb: limitMb } });
  const { slug, id } = body.project;
  const key: string = body.api_key;
  const [row] = await rowhouse.service.deps.control.query<{ empty: number }>(
    sql`select empty_bytes::float8 as empty from projects where id = ${id}`,
  );
  /** `through`: another process of the same installation. */
  const run = (query: string, params: unknown[] = [], through = rowhouse) =>
    through.call('POST', `/projects/${slug}/query`, { key, body: { query, params, timeout_ms: 30_000 } });
  /** While a table is rewritten after a refusal, it is on disk twice. */
  const measure = async () => {
    const [found] = await asAdmin((admin) =>
      admin.query<{ bytes: number; isRewriting: boolean }>(sql`
        with size as materialized (select pg_database_size(${databaseOf(id)})::float8 as bytes)
        select bytes, exists (
          select from pg_stat_activity where datname = ${databaseOf(id)} and query ~* '^(vacuum|reindex)'
            and bytes > 0) as "isRewriting"
        from size`),
    );
    return { mb: ((found?.bytes ?? 0) - (row?.empty ?? 0)) / mb, isRewriting: found?.isRewriting === true };
  };
  return {
    slug,
    id,
    key,
    run,
    fine: async (query: string, params: unknown[] = [], through = rowhouse) => {
      const answer = await run(query, params, through);
      expect(answer.status, `${query}: ${JSON.stringify(answer.body)}`).toBe(200);
      return answer.body;
    },
    add: (table: string, values: object) =>
      rowhouse.call('POST', `/projects/${slug}/tables/${table}`, { key, body: values }),
    storedMb: async () => (await measure()).mb,
    measure,
  };
}

/** Counts the inserts that run without a size check. */
export function countGrants(rowhouse: TestService): { count: number } {
  const { headroom } = rowhouse.service.deps.query.admission;
  const grants = { count: 0 };
  const { grant } = headroom;
  headroom.grant = (...args) => {
    const granted = grant(...args);
    if (granted) grants.count++;
    return granted;
  };
  return grants;
}

/** Runs `insert` until the service has learned enough to run one without a size check. */
export async function untilGranted(grants: { count: number }, insert: () => Promise<unknown>): Promise<void> {
  const before = grants.count;
  await until('an insert runs without a size check', async () => {
    await Promise.all(Array.from({ length: 4 }, insert));
    return grants.count > before;
  });
}

/** `writers` at a time, until `refusals` were refused for each. Only success and 507 are allowed. `peak` is in MB. */
export async function fillUp(
  project: SmallProject,
  insert: () => Promise<{ status: number; body: { error?: { code: string } } }>,
  { writers = 16, refusals = 3 } = {},
): Promise<{ peak: number; done: number }> {
  let peak = 0;
  let done = 0;
  let isOver = false;
  const look = async () => {
    while (!isOver) {
      const now = await project.measure();
      if (!now.isRewriting) peak = Math.max(peak, now.mb);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  const write = async () => {
    for (let refused = 0; refused < refusals; ) {
      const { status, body } = await insert();
      if (status === 507) refused++;
      else
        expect([status, body.error], JSON.stringify(body)).toEqual([status < 300 ? status : 200, undefined]);
      done += status < 300 ? 1 : 0;
    }
  };
  const looking = look();
  await Promise.all(Array.from({ length: writers }, write)).finally(() => {
    isOver = true;
  });
  await looking;
  return { peak, done };
}
