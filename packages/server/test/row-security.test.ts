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
