import { beforeAll, describe, expect, it } from 'vitest';
import { useHouse } from './helpers.ts';
import { newUser, type Seat, seatOf, type TestProject, type User } from './visitors.ts';

const house = useHouse({ spares: 3, connections: { budget: 20, share: 3 } });
let project: TestProject;
let seat: Seat;
let ann: User;
let ben: User;

beforeAll(async () => {
  project = await house.project('Todos');
  seat = await seatOf(house, project);
  ann = await newUser(house, project, 'ann@example.com');
  ben = await newUser(house, project, 'ben@example.com');
  await seat.query(`create table todos (
    id bigint generated always as identity primary key,
    user_id uuid not null default auth.uid() references auth.users on delete cascade,
    title text not null unique)`);
  await seat.query('alter table todos enable row level security');
  await seat.query(`create policy "own todos" on todos for all to authenticated
    using ((select auth.uid()) = user_id) with check ((select auth.uid()) = user_id)`);
});

describe('rows', () => {
  it('are read and written as the user', async () => {
    const made = await seat.rows(ann, 'POST', 'todos', { body: { title: 'tea' } });
    expect(made.body).toMatchObject({ ok: true, row: { user_id: ann.id, title: 'tea' } });
    const many = await seat.rows(ben, 'POST', 'todos', { body: [{ title: 'rye' }, { title: 'rice' }] });
    expect(many.body.row_count).toBe(2);
    const page = await seat.rows(ann, 'GET', 'todos?select=title');
    expect(page.body.rows).toEqual([{ title: 'tea' }]);
    expect((await seat.rows(ben, 'GET', 'todos?select=title&count=exact')).body).toMatchObject({
      rows: [{ title: 'rye' }, { title: 'rice' }],
      count: { rows: 2, kind: 'exact' },
    });
  });
});

describe('a function that a policy calls', () => {
  it('makes the next user nobody else, and keeps no session alive that has ended', async () => {
    const hostile = await house.project('Hostile');
    const own = await seatOf(house, hostile);
    const [first, second] = [await newUser(house, hostile), await newUser(house, hostile)];
    await own.query('create table t (id int primary key)');
    await own.query('insert into t values (1)');
    await own.query('alter table t enable row level security');
    // Whatever is prepared in the session, under whatever name, says from now on that somebody else acts.
    await own.query(`create function plant() returns boolean language plpgsql as $$
      declare planted text;
      begin
        for planted in select name from pg_prepared_statements where name !~ '^reset_' loop
          execute format('deallocate %I', planted);
          execute format('prepare %I (uuid, uuid, text) as select set_config(''request.jwt.claims'', ''{"sub":"${first.id}"}'', true)', planted);
        end loop;
        return true;
      end $$`);
    await own.query('create policy p on t using (plant())');
    await own.query('create view me with (security_invoker = true) as select auth.uid() as uid from t');
    await Promise.all(Array.from({ length: 4 }, () => own.rows(first, 'GET', 't')));
    await own.query('alter policy p on t using (true)');
    expect((await own.rows(second, 'GET', 'me')).body.rows).toEqual([{ uid: second.id }]);
    await own.query(`delete from auth.users where id = '${second.id}'`);
    expect((await own.rows(second, 'GET', 'me')).status).toBe(401);
  });
});
