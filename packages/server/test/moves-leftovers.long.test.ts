// What a move that ends early leaves behind for a moment, and what must not come from it: copies, exchanges and waiting requests.
import { expect, it, onTestFinished } from 'vitest';
import { readArchive } from '../src/dumps/read/archive.ts';
import { dumpInMemory } from '../src/dumps/read/dump-file.ts';
import { databaseOf } from '../src/engine/provision.ts';
import { tidySpares } from '../src/engine/spares.ts';
import { sql } from '../src/postgres/sql.ts';
import { download } from './exports.ts';
import { address, asAdmin, until } from './helpers.ts';
import { connectPg, loginOf } from './proxy-clients.ts';
import { noReplication, type Project, replicationAt, useTwoServers } from './two-servers.ts';

const { rowhouse, create, query, move, ended, cancel, movesLeft, holdBefore } = useTwoServers();

/** A direct session with an open transaction. */
async function openTransaction({ slug }: Project, ...statements: string[]) {
  const client = await connectPg(address().port, await loginOf(rowhouse, slug));
  for (const statement of ['begin', ...statements]) await client.query(statement);
  return client;
}

it('a branch does not get the publications of a move that was undone, and a promotion does not keep them', async () => {
  const project = await create();
  await query(project, 'create table keyless (id int)');
  await query(project, 'create table silent (id int)');
  await query(project, 'alter table silent replica identity nothing');
  const hold = holdBefore('catch up');
  const id = await move(project, 'second', { mode: 'online' });
  await hold.reached;
  // Neither replica identity can be put back while this is open.
  await openTransaction(project, 'select from keyless', 'select from silent');
  await cancel(id);
  hold.resume();
  expect((await ended(id)).status).toBe('cancelled');
  await until('the move is over', async () => (await movesLeft(project.id)) === 0);
  expect((await replicationAt(project.id)).identities).toHaveLength(2);

  const made = await rowhouse.call('POST', `/projects/${project.slug}/branches`, { body: { name: 'B' } });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  const branch: Project = {
    ...{ slug: made.body.project.slug, id: made.body.project.id, key: made.body.api_key },
  };
  expect(await replicationAt(branch.id)).toEqual(noReplication);
  const identities = `select relname, relreplident::text as identity from pg_class
                      where relname in ('keyless', 'silent') order by 1`;
  const expected = [
    { relname: 'keyless', identity: 'd' },
    { relname: 'silent', identity: 'n' },
  ];
  expect(await query(branch, identities)).toEqual(expected);

  const promoted = await rowhouse.call('POST', `/projects/${branch.slug}/promote`);
  expect(promoted.status, JSON.stringify(promoted.body)).toBe(200);
  expect((await rowhouse.call('POST', `/projects/${branch.slug}/restore`)).status).toBe(200);
  for (const one of [project, branch]) {
    expect(await replicationAt(one.id)).toEqual(noReplication);
    expect(await query(one, identities)).toEqual(expected);
  }
});

it('a lock on a table makes a move go by a dump, which has the project to itself', async () => {
  const project = await create();
  await query(project, 'create table notes (id int primary key)');
  await query(project, 'insert into notes values (1)');
  await openTransaction(project, 'lock table notes in access exclusive mode');
  const job = await ended(await move(project, 'second'));
  expect(job.error).toBe(null);
  expect(job.result).toMatchObject({ mode: 'dump', reason: expect.stringContaining('holds a lock') });
  expect(await query(project, 'select id from notes')).toEqual([{ id: 1 }]);
});

it('requests do not wait until an undone move is tidied up', async () => {
  const project = await create();
  const tables = Array.from({ length: 60 }, (_, n) => `create table keyless_${n} (id int)`);
  await query(project, `do $$ begin ${tables.join('; ')}; end $$`);
  const waiting: Promise<{ publications: number }[]>[] = [];
  Object.assign(rowhouse.service.deps.moves, {
    onStep: async (step: string) => {
      if (step !== 'name') return;
      waiting.push(query(project, 'select count(*)::int as publications from pg_publication'));
      throw new Error('undo');
    },
  });
  const id = await move(project, 'second', { mode: 'online' });
  expect((await ended(id)).status).toBe('failed');
  Object.assign(rowhouse.service.deps.moves, { onStep: undefined });
  const [[seen] = []] = await Promise.all(waiting);
  expect(seen?.publications).toBeGreaterThan(0);
  await until('the move is over', async () => (await movesLeft(project.id)) === 0);
  expect(await replicationAt(project.id)).toEqual(noReplication);
});

it('a process of another version leaves the copy alone, and sequences of extensions stay with them', async () => {
  const project = await create();
  await query(project, 'create table notes (id int)');
  await asAdmin(
    async (admin) => {
      await admin.query(sql`create sequence public.of_extension`);
      await admin.query(sql`alter extension plpgsql add sequence public.of_extension`);
    },
    { ...address(), database: databaseOf(project.id) },
  );
  const { control, servers } = rowhouse.service.deps;
  const hold = holdBefore('catch up');
  const id = await move(project, 'second', { mode: 'online' });
  await hold.reached;
  const target = servers.all().find(({ name }) => name === 'second');
  if (!target) throw new Error('The second server is not known.');
  await tidySpares(control, { ...target, template: 'rowhouse_t_another' });
  const [role] = await asAdmin((admin) =>
    admin.query<{ days: number }>(sql`
      select extract(day from rolvaliduntil - now())::int as days from pg_roles where rolname = ${`p_${project.id}_move`}`),
  );
  expect(role?.days).toBe(2);
  hold.resume();
  const job = await ended(id);
  expect(job.error).toBe(null);
  expect(job.result).toMatchObject({ mode: 'online' });
});

it('an export during a move shows the publications and replica identities of the project itself', async () => {
  const project = await create();
  const setsFull = 'ALTER TABLE ONLY public.keyless REPLICA IDENTITY FULL;';
  for (const statement of [
    "create table keyless (id int, v text default '\n')",
    'create table silent (id int)',
    'alter table silent replica identity nothing',
    'create table "Own name" (id int)',
    'alter table "Own name" replica identity full',
    'create table "To do" (id int)',
    'create publication theirs for table "To do"',
    'create publication "rowhouse_move too" for table "To do"',
    // Rows that look like what a move adds stay.
    `insert into keyless values (1, '${setsFull}'), (2, E'a\nCREATE PUBLICATION rowhouse_move ;\nb')`,
    `insert into keyless select n, repeat('x', 100000) from generate_series(3, 5) as n`,
  ])
    await query(project, statement);
  const statements = async () => {
    const { status, bytes } = await download(rowhouse, project, 'sql');
    expect(status).toBe(200);
    // pg_dump writes a random word there.
    return bytes
      .toString('utf8')
      .split('\n')
      .filter((line) => line !== '' && !/^(--|\\(un)?restrict )/.test(line));
  };
  const entries = async () => {
    const { status, bytes } = await download(rowhouse, project, 'custom');
    expect(status).toBe(200);
    const { entries: found, dataAt } = await readArchive(dumpInMemory(bytes));
    // Privileges on the database name the roles of the service, the one of a move included.
    const own = found.filter(({ name }) => !name.startsWith('DATABASE '));
    const known = own.map(({ kind, name, text, owner }) => ({ kind, name, text, owner }));
    return { known, data: bytes.length - dataAt };
  };
  const [script, archive] = [await statements(), await entries()];
  expect(script).toContain('ALTER TABLE ONLY public."Own name" REPLICA IDENTITY FULL;');
  const hold = holdBefore('catch up');
  const id = await move(project, 'second', { mode: 'online' });
  await hold.reached;
  onTestFinished(hold.resume);
  // Three of the move, and one of the project.
  expect((await replicationAt(project.id)).publications).toHaveLength(4);
  expect(await statements()).toEqual(script);
  expect(await entries()).toEqual(archive);
  hold.resume();
  expect((await ended(id)).error).toBe(null);
});
