// rowhouse sql, psql, import, export, migrate and seed against a running service.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { until } from '../../server/test/helpers.ts';
import { bin } from './installation.ts';
import { useService } from './live.ts';

const live = useService();
const shop = { ROWHOUSE_PROJECT: 'shop' };
const work = (...parts: string[]) => path.join(live.folder, 'work', ...parts);
const run = (args: string[], more: { input?: string; env?: Record<string, string> } = {}) =>
  live.run(args, { ...more, env: { ...shop, ...more.env } });
let projectKey = '';

beforeAll(() => {
  projectKey = live.json('projects', 'create', 'Shop', '--slug', 'shop').api_key;
});

describe('rowhouse sql', () => {
  it('runs a statement, and keeps all digits', () => {
    const { status, out } = run(['sql', "select 9007199254740993 as big, 'a\nb' as text, null as nothing"]);
    expect([status, out]).toEqual([
      0,
      expect.stringMatching(
        /^ +big {2}text {2}nothing\n9007199254740993 {2}a↵b {3}null\n\(1 row, [\d.]+ m?s\)\n$/,
      ),
    ]);
  });

  it('runs a file or stdin as one transaction, and shows the line that failed', () => {
    writeFileSync(
      work('teas.sql'),
      '-- teas\ncreate table teas (id int primary key, name text);\n\ninsert into teas\n  values (1, 2, 3);\n',
    );
    const failed = run(['sql', '--file', 'teas.sql']);
    expect([failed.status, failed.err]).toEqual([
      1,
      expect.stringMatching(
        /^teas\.sql:5: INSERT has more expressions.*\n {4}values \(1, 2, 3\);\n {18}\^\n/,
      ),
    ]);
    expect(run(['sql', 'select * from teas']).err).toContain('does not exist');
    const input =
      "create table teas (id int primary key, name text); insert into teas values (1, 'Assam'), (2, null)";
    const piped = run(['sql'], { input });
    expect([piped.status, piped.out]).toEqual([0, expect.stringMatching(/^CREATE TABLE .*\n\nINSERT 2 /)]);
    expect(run(['sql', 'insert into teas values (9)', '--read-only']).status).toBe(1);
    expect(run(['sql', '  ']).status).toBe(1);
  });

  it('prints rows as CSV, JSON lines or JSON', () => {
    expect(run(['sql', 'select * from teas order by id', '-o', 'csv']).out).toBe('id,name\n1,Assam\n2,\n');
    expect(run(['sql', 'select id from teas order by id', '-o', 'jsonl']).out).toBe('{"id":1}\n{"id":2}\n');
    expect(JSON.parse(run(['sql', 'select id from teas', '-o', 'json', '--limit', '1']).out)).toMatchObject({
      ...{ rows: [{ id: 1 }], truncated: true },
    });
    expect(run(['sql', 'select nope', '-o', 'csv']).err).toContain('"nope" does not exist');
  });

  it('with a project key, needs no project', () => {
    const env = { ROWHOUSE_API_KEY: projectKey, ROWHOUSE_PROJECT: '' };
    expect(live.run(['sql', 'select 1 as one'], { env }).out).toMatch(/^one\n/);
  });

  it('opens a shell with history and completion on a terminal', { timeout: 120_000 }, async () => {
    const made = "create table shells (id int, nacre text); insert into shells values (1, 'Pearl')";
    expect(run(['sql', made]).status).toBe(0);
    // script(1) gives the command a terminal.
    const child = spawn('script', ['-qec', `${process.execPath} ${bin} sql`, '/dev/null'], {
      ...{ cwd: work(), env: { ...live.env(shop), TERM: 'xterm' } },
    });
    let output = '';
    child.stdout.on('data', (piece) => {
      output += piece;
    });
    const says = (text: string | RegExp) =>
      until(
        `it says ${text}`,
        async () => (typeof text === 'string' ? output.includes(text) : text.test(output)),
        60_000,
      );
    await says('shop=> ');
    child.stdin.write("select 'a;\n");
    await says('shop-> ');
    child.stdin.write("b' as two, 41 + 1 as answer;\n");
    await says(/42\s[\s\S]*\(1 row/);
    // As a person does: a completion is there before the next letter.
    child.stdin.write('select nac\t');
    await says('nacre');
    child.stdin.write(' from she\t');
    await says('shells');
    child.stdin.write(' where id = 1;\n');
    await says(/Pearl[\s\S]*\(1 row/);
    child.stdin.write('\\d shells\n');
    await says(/integer[\s\S]*\(2 rows/);
    child.stdin.write('select nope;\n');
    await says('"nope" does not exist');
    child.stdin.write(' select 7 as secret;\n\\q\n');
    await once(child, 'exit');
    const history = path.join(live.config, 'rowhouse', 'history');
    expect(readFileSync(history, 'utf8')).toContain('select nacre from shells where id = 1;');
    expect(readFileSync(history, 'utf8')).not.toContain('secret');
    expect(statSync(history).mode & 0o777).toBe(0o600);
  });

  it.skipIf(spawnSync('psql', ['--version']).status !== 0)(
    'psql gets the connection, and never as an argument',
    () => {
      const { status, out } = run(['psql', '--', '-Atc', 'select name from teas where id = 1']);
      expect([status, out]).toEqual([0, 'Assam\n']);
      expect(run(['sql', '--psql', 'select count(*) from teas']).out).toMatch(/\n +2\n/);
      expect(run(['psql', '--', '-c', 'select nope']).status).toBe(1);
      expect(run(['psql'], { env: { PATH: '/nowhere' } }).err).toContain('rowhouse sql');
    },
  );
});

it('import and export copy the rows of a table', () => {
  writeFileSync(work('more.csv'), 'id,name\n3,"Mate, green"\n4,Sencha\n');
  expect(run(['import', 'more.csv', '--table', 'teas']).out).toBe('Inserted 2 rows into teas.\n');
  expect(
    run(['import', '-', '--table', 'teas', '--format', 'jsonl'], { input: '{"id":5,"name":"Oolong"}\n' })
      .status,
  ).toBe(0);
  const double = run(['import', 'more.csv', '--table', 'teas']);
  expect([double.status, double.err]).toEqual([1, expect.stringContaining('duplicate key')]);
  expect(run(['export', '--table', 'teas', 'teas.jsonl']).out).toMatch(
    /^Exported teas to teas\.jsonl \(0\.1 KB\)\.\n$/,
  );
  expect(readFileSync(work('teas.jsonl'), 'utf8').trim().split('\n')).toHaveLength(5);
  expect(run(['export', '--table', 'teas']).out).toContain('\n3,"Mate, green"\n');
  expect(run(['export', '--format', 'sql', '-']).out).toContain('CREATE TABLE public.teas');
  expect(run(['import', 'more.csv']).err).toContain('--table <table>');
  expect(run(['import', 'none.csv', '--table', 'teas']).err).toContain('cannot be read');
  expect(run(['tables', 'list']).out).toMatch(/^TABLE .*\n(.*\n)*teas +table /);
});

describe('rowhouse migrate', () => {
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
    const tried = run(['migrate', 'up', '--dry-run'], { env: { ROWHOUSE_API_KEY: projectKey } });
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
    const undone = run(['migrate', 'up', '--dry-run'], { env: { ROWHOUSE_API_KEY: projectKey } });
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
});

it('users are named by their email address', () => {
  live.json('users', 'create', 'shop', 'Ada@example.com');
  live.json('users', 'create', 'shop', 'ada@example.com.au');
  expect(run(['users', 'show', 'ada@example.com']).out).toMatch(/email +Ada@example\.com\n/);
  expect(JSON.parse(run(['users', 'ban', 'ada@example.com', '--json']).out).user).toMatchObject({
    ...{ email: 'Ada@example.com', banned_at: expect.any(String) },
  });
  expect(
    JSON.parse(run(['users', 'change', 'ada@example.com', '--role', 'editor', '--verified', '--json']).out)
      .user,
  ).toMatchObject({
    ...{ role: 'editor', email_verified_at: expect.any(String) },
  });
  expect(run(['users', 'sign-out', 'ada@example.com']).out).toBe('Ended 0 sessions of Ada@example.com.\n');
  expect(run(['users', 'show', 'eve@example.com']).err).toContain('rowhouse users list shop');
  expect(run(['users', 'delete', 'ada@example.com', '--yes']).out).toBe('User Ada@example.com is deleted.\n');
});

it('the keys of the account are listed, issued and revoked', () => {
  const { key } = live.json('account', 'issue-key', '--name', 'ci', '--role', 'viewer', '--expires', '1d');
  expect(run(['account', 'keys']).out).toMatch(/ci +viewer +rh_acct_/);
  expect(run(['account', 'revoke-key', key.id]).status).toBe(0);
  expect(run(['account', 'show']).out).toMatch(/name +default\nrole +owner/);
});
