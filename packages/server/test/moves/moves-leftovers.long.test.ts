// What a move that ends early leaves behind for a moment, and what must not come from it: copies, exchanges and waiting requests.
import { expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { noteLeftSpares } from '../../src/servers/databases/spares.ts';
import { download } from '../support/exports.ts';
import { address, asAdmin, until } from '../support/helpers.ts';
import { connectPg, loginOf } from '../support/proxy-clients.ts';
import { noReplication, type Project, replicationAt, useTwoServers } from '../support/two-servers.ts';

const { rowhouse, other, create, query, move, ended, cancel, movesLeft, holdBefore, secondAddress } =
  useTwoServers();

/** A direct session with an open transaction. */
async function openTransaction({ slug }: Project, ...statements: string[]) {
  const client = await connectPg(address().port, await loginOf(rowhouse, slug));
  for (const statement of ['begin', ...statements]) await client.query(statement);
  return client;
}

/** Undoes a move while a transaction keeps its replica identities from being put back. `expected`: what `identities` gave before. */
async function leaveTraces(project: Project) {
  await query(project, 'create table keyless (id int)');
  await query(project, 'create table silent (id int)');
  await query(project, 'alter table silent replica identity nothing');
  const identities = `select relname, relreplident::text as identity from pg_class
                      where relname in ('keyless', 'silent') order by 1`;
  const expected = [
    { relname: 'keyless', identity: 'd' },
    { relname: 'silent', identity: 'n' },
  ];
  expect(await query(project, identities)).toEqual(expected);
  const hold = holdBefore('catch up');
  const id = await move(project, 'second', { mode: 'online' });
  await hold.reached;
  const client = await openTransaction(project, 'select from keyless', 'select from silent');
  await cancel(id);
  hold.resume();
  expect((await ended(id)).status).toBe('cancelled');
  await until('the move is over', async () => (await movesLeft(project.id)) === 0);
  expect((await replicationAt(project.id)).identities).toHaveLength(2);
  return { client, identities, expected };
}

it('a branch does not get the publications of a move that was undone, and a promotion does not keep them', async () => {
  const project = await create();
  const { identities, expected } = await leaveTraces(project);

  const made = await rowhouse.call('POST', `/projects/${project.slug}/branches`, { body: { name: 'B' } });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  const branch: Project = {
    slug: made.body.project.slug,
    id: made.body.project.id,
    key: made.body.api_key,
  };
  expect(await replicationAt(branch.id)).toEqual(noReplication);
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
  await noteLeftSpares(control, { ...target, template: 'rowhouse_t_another' });
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

it('a move by a dump does not take over what an undone move has left, and until then the project is not exported', async () => {
  const project = await create();
  const { client, expected, identities } = await leaveTraces(project);
  const refused = await rowhouse.call('GET', `/projects/${project.slug}/export`);
  expect([refused.status, refused.body.error?.code, refused.headers['retry-after']]).toEqual([
    ...[409, 'conflict', '30'],
  ]);
  expect(refused.body.error.message).toContain('was undone');
  expect((await download(rowhouse, project, 'csv')).status).toBe(200);
  const live = await rowhouse.call('POST', `/projects/${project.slug}/branches`, {
    body: { name: 'Live', mode: 'live' },
  });
  expect((await ended(live.body.job.id)).error).toMatchObject({ code: 'conflict' });

  // The move ends the transaction.
  const job = await ended(await move(project, 'second', { mode: 'dump' }));
  expect(job.error).toBe(null);
  await client.end().catch(() => {});
  expect(await query(project, identities)).toEqual(expected);
  expect(await replicationAt(project.id, secondAddress())).toEqual(noReplication);
  const script = await download(rowhouse, project, 'sql');
  expect([script.status, script.bytes.includes('REPLICA IDENTITY FULL')]).toEqual([200, false]);
});

it('a project that is being moved is exported only as CSV, and without a trace of the move afterwards', async () => {
  const project = await create();
  for (const statement of [
    // Names and texts that look like what a move adds.
    `create table "a\nCREATE PUBLICATION rowhouse_move ;\n" (id int)`,
    'create table keyless (id int, v text)',
    `comment on table keyless is E'one\nALTER TABLE ONLY public.keyless REPLICA IDENTITY FULL;\ntwo'`,
    'create publication theirs for table keyless',
  ])
    await query(project, statement);
  const statements = async () => {
    const { status, bytes } = await download(rowhouse, project, 'sql');
    expect(status).toBe(200);
    // pg_dump writes a random word there. The mark of the switch is an attempt that has expired, and goes like any other.
    return bytes.toString('utf8').replace(/^\\((un)?restrict |\\x[0-9a-f]{64}\t).*\n/gm, '');
  };
  const before = await statements();
  const hold = holdBefore('catch up');
  const id = await move(project, 'second', { mode: 'online' });
  await hold.reached;
  onTestFinished(hold.resume);
  expect((await replicationAt(project.id)).publications).toHaveLength(3);
  for (const through of [rowhouse, other()])
    for (const format of ['sql', 'custom']) {
      const path = `/projects/${project.slug}/export?format=${format}`;
      const { status, body, headers } = await through.call('GET', path, { key: rowhouse.accountKey });
      expect([status, body.error?.code, headers['retry-after']]).toEqual([409, 'conflict', '30']);
      expect(body.error.message).toContain('being moved');
      expect(body.error.hint).toContain(`/jobs/${id} `);
    }
  const branch = { name: 'Live', mode: 'live' };
  const live = await rowhouse.call('POST', `/projects/${project.slug}/branches`, { body: branch });
  expect([live.status, live.body.error?.details]).toEqual([409, { retryable: true, job: id }]);
  expect((await download(rowhouse, project, 'csv')).status).toBe(200);
  hold.resume();
  expect((await ended(id)).error).toBe(null);
  expect(await statements()).toBe(before);
});

it('an online move begins when the export that runs has ended', async () => {
  const project = await create();
  await query(project, 'create table notes (id int primary key)');
  const pieces: Uint8Array[] = [];
  let [begun, read] = [() => {}, () => {}];
  const hasBegun = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const isRead = new Promise<void>((resolve) => {
    read = resolve;
  });
  onTestFinished(read);
  const write = (piece: Uint8Array) => {
    pieces.push(piece);
    begun();
    return isRead;
  };
  const source = { id: project.id, account_id: '', server_id: rowhouse.service.deps.server.id };
  const exporting = rowhouse.service.deps.exports.run(source, 'sql', write, new AbortController().signal);
  await hasBegun;
  const hold = holdBefore('catch up');
  const id = await move(project, 'second', { mode: 'online' });
  onTestFinished(hold.resume);
  const first = await Promise.race([
    hold.reached.then(() => 'the rows are copied'),
    new Promise((resolve) => setTimeout(resolve, 3_000, 'it waits')),
  ]);
  expect(first).toBe('it waits');
  expect(await replicationAt(project.id)).toEqual(noReplication);
  read();
  await exporting;
  expect(Buffer.concat(pieces).toString()).not.toContain('PUBLICATION');
  await hold.reached;
  hold.resume();
  const job = await ended(id);
  expect([job.error, job.result.mode]).toEqual([null, 'online']);
});
