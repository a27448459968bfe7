// What one request does to a session's random numbers must not decide what another one gets: setseed survives RESET and
// DISCARD ALL.
import { beforeAll, expect, it } from 'vitest';
import { useTestService } from '../support/helpers.ts';

/** One session, so that the next request has the same. */
const rowhouse = useTestService({ connections: { budget: 2, share: 1 } });
let project: { slug: string; id: string; key: string };
let neighbour: { slug: string; id: string; key: string };
/** What random() gives after setseed(0.5). */
const known = new Set<number>();

const run = async (query: string, of = project, more: object = {}) => {
  const answer = await rowhouse.call('POST', `/projects/${of.slug}/query`, {
    key: of.key,
    body: { query, ...more },
  });
  expect(answer.body, query).toMatchObject({ ok: true });
  return answer.body.rows as Record<string, unknown>[];
};

const randoms = async () =>
  (await run('select random() as r from generate_series(1, 3)')).map(({ r }) => r as number);

beforeAll(async () => {
  project = await rowhouse.project('Random');
  neighbour = await rowhouse.project('Neighbour');
  const { body } = await rowhouse.call('POST', `/projects/${project.slug}/batch`, {
    key: project.key,
    body: {
      statements: [
        { query: 'select setseed(0.5)' },
        { query: 'select random() as r from generate_series(1, 50)' },
      ],
    },
  });
  for (const { r } of body.results[1].rows) known.add(r);
  const setup = [
    'create function seed_sql() returns void language sql as $$ select setseed(0.5) $$',
    'create function seed_code() returns int language plpgsql as $$ begin perform setseed(0.5); return 1; end $$',
    `create function seed_setting() returns int language plpgsql as
       $$ begin perform set_config('seed', '0.5', false); return 1; end $$`,
    'create table seeded (id int, n int default seed_code())',
    `create function seed_trigger() returns trigger language plpgsql as
       $$ begin perform setseed(0.5); return new; end $$`,
    'create table triggered (id int)',
    'create trigger seeds before insert on triggered for each row execute function seed_trigger()',
    'create view seeding as select seed_code() as n',
    'create domain seed_domain as int check (seed_code() = value)',
  ];
  for (const query of setup) await run(query);
});

const ways: Record<string, () => Promise<unknown>> = {
  'a call': () => run('select setseed(0.5)'),
  'a call with a limit': () => run('select setseed(0.5)', project, { limit: 1 }),
  'a call that is undone': () => run('select setseed(0.5)', project, { dry_run: true }),
  'a call that only reads': () => run('select setseed(0.5)', project, { read_only: true }),
  'a function': () => run('select seed_sql()'),
  'a function with code': () => run('select seed_code()'),
  'the setting': () => run('select seed_setting()'),
  set_config: () => run("select set_config('seed', '0.5', false)"),
  'set_config for a transaction': () => run("select set_config('seed', '0.5', true)"),
  DO: () => run('do $$ begin perform setseed(0.5); end $$'),
  'SET in a DO': () => run('do $$ begin set seed = 0.5; end $$'),
  'a default': () => run('insert into seeded (id) values (1)'),
  'a trigger': () => run('insert into triggered values (1)'),
  'a view': () => run('select * from seeding'),
  'a domain': () => run('select 1::seed_domain'),
  'a batch': () =>
    rowhouse.call('POST', `/projects/${project.slug}/batch`, {
      key: project.key,
      body: { statements: [{ query: 'select setseed(0.5)' }] },
    }),
  'an error afterwards': () =>
    rowhouse.call('POST', `/projects/${project.slug}/query`, {
      key: project.key,
      body: { query: "select seed_code(), setseed(0.5), 'x'::text::int" },
    }),
  'a page of a view': () =>
    rowhouse.call('GET', `/projects/${project.slug}/tables/seeding`, { key: project.key }),
  'a row with a trigger': () =>
    rowhouse.call('POST', `/projects/${project.slug}/tables/triggered`, {
      key: project.key,
      body: { id: 2 },
    }),
  'an import': () =>
    rowhouse.call('POST', `/projects/${project.slug}/tables/triggered`, {
      key: project.key,
      raw: 'id\n3\n',
      headers: { 'content-type': 'text/csv' },
    }),
};

for (const [name, seed] of Object.entries(ways))
  it(`${name} does not seed the next request`, async () => {
    await seed();
    const found = [...(await randoms()), ...(await randoms())];
    expect(found.filter((r) => known.has(r))).toEqual([]);
    expect(new Set(found).size).toBe(found.length);
  });

it("a seed holds within its own request, and the neighbour's random numbers differ", async () => {
  const seeded = () => run('select setseed(0.5), (select random() from generate_series(1, 1)) as r');
  const [[first], [second]] = [await seeded(), await seeded()];
  expect(first?.r).toBe(second?.r);
  expect((await run('select random() as r', neighbour)).length).toBe(1);
});
