// rowhouse sql, psql, import and export, users and account against a running service. rowhouse migrate: migrate.test.ts.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../../server/test/support/helpers.ts';
import { bin } from './installation.ts';
import { useShop } from './live.ts';

const { live, shop, work, run, projectKey } = useShop();

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
      rows: [{ id: 1 }],
      truncated: true,
    });
    expect(run(['sql', 'select nope', '-o', 'csv']).err).toContain('"nope" does not exist');
  });

  it('with a project key, needs no project', () => {
    const env = { ROWHOUSE_API_KEY: projectKey(), ROWHOUSE_PROJECT: '' };
    expect(live.run(['sql', 'select 1 as one'], { env }).out).toMatch(/^one\n/);
  });

  it('opens a shell with history and completion on a terminal', { timeout: 120_000 }, async () => {
    const made = "create table shells (id int, nacre text); insert into shells values (1, 'Pearl')";
    expect(run(['sql', made]).status).toBe(0);
    const { child, says, exited } = openShell();
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
    await exited;
    const history = path.join(live.config, 'rowhouse', 'history');
    expect(readFileSync(history, 'utf8')).toContain('select nacre from shells where id = 1;');
    expect(readFileSync(history, 'utf8')).not.toContain('secret');
    expect(statSync(history).mode & 0o777).toBe(0o600);
  });

  it('a shell takes what is typed while a statement runs, and Ctrl-C discards a line or ends a statement', {
    timeout: 120_000,
  }, async () => {
    const { child, says, exited } = openShell();
    await says('shop=> ');
    child.stdin.write('select 1 as early, pg_sleep(1);\n');
    await says('early');
    child.stdin.write('select 40 + ');
    await says(/\(1 row[\s\S]*shop=> [\s\S]*select 40 \+ /);
    child.stdin.write('2 as later;\n');
    await says(/42\s[\s\S]*\(1 row/);
    child.stdin.write('select nonsense');
    await says('nonsense');
    child.stdin.write('\x03');
    await says('^C');
    child.stdin.write('select pg_sleep(20) as endless;\n');
    await says('endless;');
    await sleep(1_000);
    child.stdin.write('\x03');
    await says('Interrupted.');
    child.stdin.write('select 6 * 7 * 2 as fresh;\n\\q\n');
    await says(/84\s[\s\S]*\(1 row/);
    await exited;
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

it('users are named by their email address', () => {
  live.json('users', 'create', 'shop', 'Ada@example.com');
  live.json('users', 'create', 'shop', 'ada@example.com.au');
  expect(run(['users', 'show', 'ada@example.com']).out).toMatch(/email +Ada@example\.com\n/);
  expect(JSON.parse(run(['users', 'ban', 'ada@example.com', '--json']).out).user).toMatchObject({
    email: 'Ada@example.com',
    banned_at: expect.any(String),
  });
  expect(
    JSON.parse(run(['users', 'change', 'ada@example.com', '--role', 'editor', '--verified', '--json']).out)
      .user,
  ).toMatchObject({
    role: 'editor',
    email_verified_at: expect.any(String),
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

/** script(1) gives the command a terminal. */
function openShell() {
  const child = spawn('script', ['-qec', `${process.execPath} ${bin} sql`, '/dev/null'], {
    cwd: work(),
    env: { ...live.env(shop), TERM: 'xterm' },
  });
  onTestFinished(() => void child.kill());
  let output = '';
  child.stdout.on('data', (piece) => {
    output += piece;
  });
  const says = async (text: string | RegExp) => {
    const isSaid = async () => (typeof text === 'string' ? output.includes(text) : text.test(output));
    await until(`it says ${text}`, isSaid, 30_000).catch((error: Error) => {
      throw new Error(`${error.message}, but ${JSON.stringify(output.slice(-2_000))}`);
    });
  };
  // From the start: it may have exited before the test waits for that.
  return { child, says, exited: once(child, 'exit') };
}
