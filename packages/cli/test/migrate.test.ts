// rowhouse migrate and seed against a running service.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { bin } from './installation.ts';
import { useShop } from './live.ts';

const { live, shop, work, run, projectKey } = useShop();

const file = (name: string, text: string) => {
  mkdirSync(work('migrations'), { recursive: true });
  writeFileSync(work('migrations', name), text);
};

it('applies files in order, each with its entry, and reports the state of each', () => {
  expect(run(['migrate', 'up']).err).toContain('rowhouse migrate new');
  const made = JSON.parse(run(['migrate', 'new', 'Create orders!', '--json']).out).file as string;
  expect(made).toMatch(/^migrations\/\d{14}_create_orders\.sql$/);
  rmSync(work(made));
  file('1_orders.sql', 'create table orders (id int primary key);\r\ninsert into orders values (1);\r\n');
  file(
    '2_items.sql',
    `create function f() returns int language sql begin atomic select 1; select 2; end;
create table items (id int default f());`,
  );
  expect(run(['migrate', 'status']).out).toMatch(
    /^VERSION.*\n1 +orders +pending +-\n2 +items +pending +-\n$/,
  );
  const { status, out, err } = run(['migrate', 'up', '--to', '1']);
  expect([status, out, err]).toEqual([0, 'Applied 1 migration to shop.\n', 'applied  1_orders.sql\n']);
  expect(run(['migrate', 'up']).status).toBe(0);
  expect(run(['migrate', 'up']).out).toBe('shop is up to date: 2 migrations.\n');
  // Another kind of line end is no change.
  file('1_orders.sql', 'create table orders (id int primary key);\ninsert into orders values (1);\n');
  expect(JSON.parse(run(['migrate', 'status', '-o', 'json']).out).migrations[0].state).toBe('applied');
});

it('a migration that fails leaves nothing behind, and is shown with its line', () => {
  file('3_bad.sql', 'create table left_behind ();\n\ncreate table x (id nothing);\n');
  const { status, err } = run(['migrate', 'up']);
  expect([status, err]).toEqual([
    1,
    expect.stringMatching(/migrations\/3_bad\.sql:3: type "nothing" does not exist\n/),
  ]);
  expect(run(['sql', "select to_regclass('left_behind') as is"]).out).toMatch(/^is\nnull\n/);
  const tried = run(['migrate', 'up', '--dry-run'], { env: { ROWHOUSE_API_KEY: projectKey() } });
  expect([tried.status, tried.err]).toEqual([1, expect.stringContaining('3_bad.sql:3')]);
  rmSync(work('migrations', '3_bad.sql'));
});

it('a dry run works on a branch, or undoes what it did, and changes nothing', { timeout: 120_000 }, () => {
  file(
    '4_later.sql',
    'alter table orders add column price int;\ncreate table later (id int references orders);\n',
  );
  const { status, out } = run(['migrate', 'up', '--dry-run']);
  expect([status, out]).toEqual([
    0,
    '1 migrations would be applied to shop. Tried on a branch with a copy of the data.\n',
  ]);
  expect(live.json('branches', 'list', 'shop').branches).toEqual([]);
  const undone = run(['migrate', 'up', '--dry-run'], { env: { ROWHOUSE_API_KEY: projectKey() } });
  expect([undone.status, undone.out]).toEqual([
    0,
    expect.stringContaining('in a transaction that was undone'),
  ]);
  expect(run(['migrate', 'status']).out).toMatch(/4 +later +pending/);
});

it('two at once apply each migration once', { timeout: 120_000 }, async () => {
  const start = () =>
    spawn(process.execPath, [bin, 'migrate', 'up', '--json'], { cwd: work(), env: live.env(shop) });
  const both = [start(), start(), start()];
  const outputs = both.map(async (child) => {
    let text = '';
    child.stdout.on('data', (piece) => {
      text += piece;
    });
    const [status] = await once(child, 'exit');
    return { status, text };
  });
  const done = await Promise.all(outputs);
  expect(done.map(({ status }) => status)).toEqual([0, 0, 0]);
  expect(done.flatMap(({ text }) => JSON.parse(text).applied)).toHaveLength(1);
});

it('refuses changed files and files that come too late, and marks what was applied by hand', () => {
  file('1_orders.sql', 'create table orders (id bigint primary key);\n');
  const changed = run(['migrate', 'up']);
  expect([changed.status, changed.err]).toEqual([1, expect.stringContaining('rowhouse migrate mark 1')]);
  expect(run(['migrate', 'mark', '1']).status).toBe(0);
  file('3_late.sql', 'create table late ()');
  expect(run(['migrate', 'up']).err).toContain('--include-older');
  expect(run(['migrate', 'up', '--include-older']).out).toBe('Applied 1 migration to shop.\n');
  file('3_twin.sql', 'select 1');
  expect(run(['migrate', 'status']).err).toContain('Two migrations have the version 3');
  rmSync(work('migrations', '3_twin.sql'));
  file('odd.sql', 'select 1');
  expect(run(['migrate', 'up']).err).toContain('is not the name of a migration');
  rmSync(work('migrations', 'odd.sql'));
});

it('statements that need it run outside of a transaction', () => {
  file(
    '5_index.sql',
    '-- rowhouse: no transaction\ncreate index concurrently orders_price on orders (price);\n',
  );
  expect(run(['migrate', 'up']).out).toBe('Applied 1 migration to shop.\n');
  expect(run(['sql', "select to_regclass('orders_price')::text as is"]).out).toContain('orders_price');
});

it('seed runs a file of rows', () => {
  writeFileSync(work('migrations', 'seed.sql'), 'insert into orders (id) values (10), (11);\n');
  expect(run(['seed']).out).toBe('Ran migrations/seed.sql in shop: 1 statements, 2 rows inserted.\n');
  expect(run(['migrate', 'status']).status).toBe(0);
  expect(run(['seed', 'none.sql']).status).toBe(1);
});
