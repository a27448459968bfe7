// Batches that only read run in pipelines, as one read among others: nobody behind one gets its rows, waits for it, or is lost with it.
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { Sequence } from '../../src/query/exchange/sequence.ts';
import { Pipeline } from '../../src/query/sharing/pipelines.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { asAdmin, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ spares: 1, connections: { budget: 20, share: 10 } });
let project: { slug: string; id: string; key: string };

type Entry = { query: string; params?: unknown[] };
const send = (path: string, body: object) =>
  rowhouse.call('POST', `/projects/${project.slug}/${path}`, { key: project.key, body });
const batch = (statements: Entry[], more: object = {}) => send('batch', { statements, ...more });
const find = 'select id, name from things where id = $1';
const wait = 'select $1::int as n, pg_sleep($2)';
const pair = (id: number) => [
  { query: find, params: [id] },
  { query: find, params: [id + 1] },
];
const expectPair = (body: { results: { rows: object[] }[] }, id: number) =>
  expect(body.results.map(({ rows }) => rows)).toEqual([
    [{ id, name: `thing ${id}` }],
    [{ id: id + 1, name: `thing ${id + 1}` }],
  ]);

/** How many batches joined pipelines while `act` ran. */
async function pipedIn(act: () => Promise<unknown>): Promise<number> {
  const run = vi.spyOn(Pipeline.prototype, 'run');
  try {
    await act();
    return run.mock.calls.filter(([piped]) => piped instanceof Sequence).length;
  } finally {
    run.mockRestore();
  }
}

const makePiped = (statements: Entry[]) =>
  until('it joins a pipeline', async () => (await pipedIn(() => batch(statements))) === 1);

beforeAll(async () => {
  project = await rowhouse.project('Piped');
  await send('query', { query: 'create table things (id int primary key, name text)' });
  await send('query', {
    query: "insert into things select n, 'thing ' || n from generate_series(1, 1000) n",
  });
  await makePiped(pair(1));
});

describe('batches in pipelines', () => {
  it('get their own rows, among single reads', async () => {
    const joined = await pipedIn(async () => {
      const answers = await Promise.all(
        Array.from({ length: 200 }, (_, n) =>
          n % 2 ? batch(pair(n)) : send('query', { query: find, params: [n + 1] }),
        ),
      );
      answers.forEach(({ body }, n) => {
        if (n % 2) expectPair(body, n);
        else expect(body.rows).toEqual([{ id: n + 1, name: `thing ${n + 1}` }]);
      });
    });
    // On a machine that is busy with something else, some take too long to join.
    expect(joined).toBeGreaterThan(10);
  });

  it('do not join with too little time to queue', async () => {
    const joined = await pipedIn(async () => expectPair((await batch(pair(5), { timeout_ms: 900 })).body, 5));
    expect(joined).toBe(0);
  });

  it('fail alone, and name the statement that failed', async () => {
    const divide = { query: 'select 10 / $1::int as ten', params: [2] as unknown[] };
    await makePiped([...pair(1), divide]);
    const answers = await Promise.all(
      Array.from({ length: 60 }, (_, n) => batch([...pair(n + 1), { ...divide, params: [n % 3] }])),
    );
    answers.forEach(({ status, body }, n) => {
      if (n % 3 === 0) expect([status, body.error.details.statement]).toEqual([400, 2]);
      else expect(body.results[2].rows).toEqual([{ ten: Math.floor(10 / (n % 3)) }]);
    });
  });

  it('hold up nobody if they are slow, and get their answer', async () => {
    await makePiped([{ query: wait, params: [1, 0] }, ...pair(1)]);
    let isSlow = true;
    const slow = batch([{ query: wait, params: [1, 3] }, ...pair(1)]).finally(() => {
      isSlow = false;
    });
    const others = await Promise.all(Array.from({ length: 60 }, (_, n) => batch(pair(n + 1))));
    others.forEach(({ body }, n) => {
      expectPair(body, n + 1);
    });
    expect(isSlow).toBe(true);
    expect((await slow).body.results.map(({ rows }: { rows: object[] }) => rows.length)).toEqual([1, 1, 1]);
  });

  it('hold up nobody if their answers are large, and get them', async () => {
    const long = { query: "select repeat('x', $1::int) as x", params: [10] as unknown[] };
    await makePiped([...pair(1), long]);
    const [large, ...others] = await Promise.all([
      batch([...pair(1), { ...long, params: [3_000_000] }]),
      ...Array.from({ length: 60 }, (_, n) => batch(pair(n + 1))),
    ]);
    expect(large.body.results[2].rows[0].x).toHaveLength(3_000_000);
    others.forEach(({ body }, n) => {
      expectPair(body, n + 1);
    });
  });

  it('are answered rightly or told to retry while their sessions are terminated', async () => {
    let isOver = false;
    let right = 0;
    const cutting = asAdmin(async (admin) => {
      while (!isOver) {
        await admin.query(sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = ${databaseOf(project.id)} and application_name = 'rowhouse query'`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    });
    const client = async (first: number) => {
      for (let id = first; id < first + 40; id++) {
        const { status, body } = await batch(pair(id));
        if (status === 200) {
          expectPair(body, id);
          right++;
        } else expect([status, body.error.code]).toEqual([503, 'unavailable']);
      }
    };
    await Promise.all(Array.from({ length: 12 }, (_, n) => client(1 + n * 50))).finally(() => {
      isOver = true;
    });
    await cutting;
    expect(right).toBeGreaterThan(50);
  });
});
