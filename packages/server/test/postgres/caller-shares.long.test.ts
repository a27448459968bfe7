// One caller of a project whose statements hang leaves sessions for the others: users by their id, keys by theirs.
import { beforeAll, describe, expect, it } from 'vitest';
import { newUser } from '../support/end-users.ts';
import { type Answer, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ connections: { budget: 30, share: 10 } });
let project: { slug: string; id: string; key: string };
let neighbour: { slug: string; id: string; key: string };
beforeAll(async () => {
  project = await rowhouse.project('Shared');
  neighbour = await rowhouse.project('Neighbour');
});

const run = (key: string, query: string, more: object = {}, of = project) =>
  rowhouse.call('POST', `/projects/${of.slug}/query`, { key, body: { query, ...more } });
const hang = (key: string) => run(key, 'select pg_sleep(60)', { timeout_ms: 8_000 });
/** Enough to fill all that one caller may have, and a queue behind it. */
const many = (send: () => Promise<Answer>) => Promise.all(Array.from({ length: 40 }, send));
const busy = () => {
  const { open, idle, waiting } = rowhouse.service.deps.query.sessions.counts();
  return { used: open - idle, waiting };
};
async function newKey(scopes: string[]): Promise<string> {
  const path = `/projects/${project.slug}/keys`;
  const { status, body } = await rowhouse.call('POST', path, {
    key: project.key,
    body: { name: 'Other', scopes },
  });
  expect(status, JSON.stringify(body)).toBe(201);
  return body.api_key;
}

/** All of it while the hog hangs, and long before it ends. */
async function othersAreServed(hog: () => Promise<Answer>, others: (() => Promise<Answer>)[]): Promise<void> {
  const hogging = many(hog);
  await until('the hog has all it can get', async () => busy().waiting > 0 && busy().used >= 8);
  let hasEnded = false;
  void hogging.then(() => {
    hasEnded = true;
  });
  for (let round = 0; round < 3; round++)
    for (const other of others) {
      const { status, body } = await other();
      expect(status, JSON.stringify(body)).toBe(200);
    }
  const { status } = await run(neighbour.key, 'select 1 as one', {}, neighbour);
  expect([status, hasEnded]).toEqual([200, false]);
  const answers = await hogging;
  // Its own are late, end at their deadlines, or get no session in time. None is an error of the service.
  for (const { status: ended } of answers) expect([200, 429, 504]).toContain(ended);
  await until('all sessions are free', async () => busy().used === 0 && busy().waiting === 0);
}

describe('a caller whose statements hang', () => {
  it('as a user leaves sessions for other users', { timeout: 60_000 }, async () => {
    const [ann, bob, cid] = [
      await newUser(rowhouse, project, 'ann@example.com'),
      await newUser(rowhouse, project, 'bob@example.com'),
      await newUser(rowhouse, project, 'cid@example.com'),
    ];
    const setup = [
      'create table notes (id int primary key, owner uuid)',
      'insert into notes select n, null from generate_series(1, 20) as n',
      'alter table notes enable row level security',
      'grant select on notes to authenticated',
      `create function slow_for_ann() returns boolean language plpgsql as $$ begin
         if auth.uid() = '${ann.id}' then perform pg_sleep(8); end if;
         return true;
       end $$`,
      'create policy slow on notes for select using (slow_for_ann())',
    ];
    for (const query of setup) expect((await run(project.key, query)).body).toMatchObject({ ok: true });
    const read = (token: string) => () =>
      rowhouse.call('GET', `/projects/${project.slug}/tables/notes?limit=5`, {
        key: project.key,
        headers: { authorization: `Bearer ${token}` },
      });
    const first = await read(bob.token)();
    expect(first.status, JSON.stringify(first.body)).toBe(200);
    await othersAreServed(read(ann.token), [
      read(bob.token),
      read(cid.token),
      () => run(project.key, 'select 1'),
    ]);
  });

  it('as a key leaves sessions for other keys, the account and users', { timeout: 60_000 }, async () => {
    const [one, other] = [await newKey(['query']), await newKey(['query:read'])];
    const others = [
      () => run(other, 'select count(*) as n from notes'),
      () => run(project.key, 'select count(*) as n from notes'),
      () => run(rowhouse.accountKey, 'create table if not exists made (id int)'),
      () => run(project.key, 'insert into made values (1)'),
    ];
    await othersAreServed(() => hang(one), others);
  });
});
