import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { bin } from './installation.ts';
import { useService } from './live.ts';

const live = useService();
/** Nothing but the configuration. */
const plain = { ROWHOUSE_URL: '', ROWHOUSE_API_KEY: '' };
const file = () => path.join(live.config, 'rowhouse', 'config.json');

it('login checks a key, stores it where only its owner reads it, and later commands use it', () => {
  const before = live.run(['projects', 'list'], { env: plain });
  expect([before.status, before.err]).toEqual([4, expect.stringContaining('rowhouse login')]);
  const refused = live.run(['login', '--url', live.service.url], { env: plain, input: 'rh_acct_nonsense' });
  expect([refused.status, refused.err]).toEqual([4, expect.not.stringContaining('nonsense')]);
  const odd = live.run(['login', '--url', live.service.url], { env: plain, input: 'hunter2' });
  expect([odd.status, odd.err]).toEqual([4, expect.not.stringContaining('hunter2')]);

  const { status, out } = live.run(['login', '--url', `${live.service.url}/`], {
    env: plain,
    input: `${live.accountKey}\n`,
  });
  expect([status, out]).toEqual([0, expect.stringContaining('as owner of the account "default"')]);
  expect(statSync(file()).mode & 0o777).toBe(0o600);
  expect(readdirSync(path.dirname(file()))).toEqual(['config.json']);
  const made = live.run(['projects', 'create', 'Linked', '--slug', 'linked', '--json'], { env: plain });
  expect(made.status).toBe(0);
  expect(live.run(['whoami'], { env: plain }).out).toMatch(
    /key +rh_acct_\w{4}…, owner of the account "default"/,
  );

  // The key of a profile goes to the address of the profile and to no other.
  const elsewhere = live.run(['projects', 'list', '--url', 'http://127.0.0.1:1'], { env: plain });
  expect([elsewhere.status, elsewhere.err]).toEqual([4, expect.stringContaining('needs an API key')]);
});

it('profiles are listed, chosen and removed', () => {
  const { api_key: key } = live.json('projects', 'create', 'Second', '--slug', 'second');
  const login = live.run(['login', '--url', live.service.url, '--profile', 'shop', '--json'], {
    env: plain,
    input: key,
  });
  expect(JSON.parse(login.out)).toMatchObject({ kind: 'project', project: 'second', stored_in: 'file' });
  const listed = live.run(['profiles', 'list'], { env: plain });
  expect(listed.out).toMatch(
    /^ +NAME +ADDRESS +KEY IN\n +default +http\S+ +file\n\* +shop +http\S+ +file\n$/,
  );
  expect(live.run(['profiles', 'list', '-o', 'csv'], { env: plain }).out).toMatch(
    /^name,url,key_in,is_current\n/,
  );
  expect(live.run(['projects', 'list', '--json'], { env: plain }).out).not.toContain('"linked"');
  expect(live.run(['projects', 'list', '--json', '--profile', 'default'], { env: plain }).out).toContain(
    '"linked"',
  );
  // The profile that the command names counts more than the environment.
  const named = live.run(['projects', 'list', '--json', '--profile', 'shop']);
  expect(named.out).not.toContain('"linked"');
  expect(live.run(['profiles', 'use', 'default'], { env: plain }).status).toBe(0);
  expect(live.run(['profiles', 'remove', 'shop'], { env: plain }).status).toBe(0);
  const gone = live.run(['projects', 'list', '--profile', 'shop'], { env: plain });
  expect([gone.status, gone.err]).toEqual([2, expect.stringContaining('rowhouse login --profile shop')]);
  expect(readFileSync(file(), 'utf8')).not.toContain(key);
});

it('a linked folder, and those below it, need no project', () => {
  const below = path.join(live.folder, 'work', 'app', 'src');
  mkdirSync(below, { recursive: true });
  const unlinked = live.run(['keys', 'list'], { env: plain, cwd: below });
  expect([unlinked.status, unlinked.err]).toEqual([2, expect.stringContaining('rowhouse link <project>')]);
  expect(live.run(['link', 'nowhere'], { env: plain }).err).toContain('rowhouse projects list');
  const linked = live.run(['link', 'linked'], { env: plain, cwd: path.dirname(below) });
  expect([linked.status, linked.err]).toEqual([0, '']);
  expect(live.run(['keys', 'list', '--json'], { env: plain, cwd: below }).status).toBe(0);
  const key = JSON.parse(
    live.run(['keys', 'issue', '--name', 'x', '--scope', 'query', '--json'], { env: plain, cwd: below }).out,
  );
  const revoked = live.run(['keys', 'revoke', key.key.id], { env: plain, cwd: below });
  expect([revoked.status, revoked.err]).toEqual([0, '']);
  expect(live.run(['sql', 'select 1 as one'], { env: plain, cwd: below }).out).toMatch(
    /^one\n {2}1\n\(1 row/,
  );
  // Deleting always takes the name.
  const nameless = live.run(['projects', 'delete', '--yes'], { env: plain, cwd: below });
  expect([nameless.status, nameless.err]).toEqual([
    2,
    expect.stringContaining("missing required argument 'slug'"),
  ]);
  expect(
    live.run(['projects', 'show', '--json'], { env: { ...plain, ROWHOUSE_PROJECT: 'second' } }).out,
  ).toContain('"second"');
  expect(live.run(['unlink'], { env: plain, cwd: path.dirname(below) }).status).toBe(0);
  expect(live.run(['unlink'], { env: plain, cwd: path.dirname(below) }).status).toBe(1);
});

it('a configuration that others can read is refused, and logout removes the key', () => {
  chmodSync(file(), 0o644);
  const open = live.run(['projects', 'list'], { env: plain });
  expect([open.status, open.err]).toEqual([1, expect.stringContaining('chmod 600')]);
  chmodSync(file(), 0o600);
  expect(live.run(['logout'], { env: plain }).status).toBe(0);
  expect(readFileSync(file(), 'utf8')).not.toContain('rh_acct_');
  expect(live.run(['projects', 'list'], { env: plain }).status).toBe(4);
  writeFileSync(file(), '{');
  expect(live.run(['projects', 'list'], { env: plain }).err).toContain('is damaged');
  writeFileSync(file(), '{}');
});

it('colours are for terminals, and NO_COLOR turns them off', () => {
  const coloured = live.run(['projects', 'list'], { env: { NO_COLOR: '', FORCE_COLOR: '1' } });
  expect(coloured.out).toContain('\x1b[1mSLUG');
  expect(live.run(['projects', 'list'], { env: { NO_COLOR: '1', FORCE_COLOR: '1' } }).out).not.toContain(
    '\x1b',
  );
  expect(live.run(['projects', 'list'], { env: { NO_COLOR: '' } }).out).not.toContain('\x1b');
});

it('lists are printed as a table, JSON or CSV', () => {
  const csv = live.run(['projects', 'list', '--output', 'csv']).out;
  expect(csv).toMatch(/^id,slug,name,limit_mb,/);
  expect(csv.trim().split('\n')).toHaveLength(3);
  expect(JSON.parse(live.run(['projects', 'list', '--output', 'json']).out).projects).toHaveLength(2);
  expect(live.run(['projects', 'list', '--output', 'xml']).status).toBe(2);
});

it('projects rename changes the name alone', () => {
  expect(live.json('projects', 'rename', 'second', 'Zweites').project).toMatchObject({
    slug: 'second',
    name: 'Zweites',
  });
});

// The shells expand these, not JavaScript.
/* biome-ignore-start lint/suspicious/noTemplateCurlyInString: said above */
const shells: [string, string[]][] = [
  [
    'bash',
    [
      '-c',
      'source <("$0" "$1" completion bash); COMP_WORDS=(rowhouse keys li); COMP_CWORD=2; _rowhouse; echo "${COMPREPLY[@]}"',
    ],
  ],
  [
    'zsh',
    [
      '-fc',
      'autoload -U compinit; compinit -u -D; source <("$0" "$1" completion zsh); _describe() { print -l "${(@P)2}" }; words=(rowhouse keys li); CURRENT=3; _rowhouse',
    ],
  ],
  [
    'fish',
    ['--no-config', '-c', '$argv[1] $argv[2] completion fish | source; complete -C "rowhouse keys li"'],
  ],
];
/* biome-ignore-end lint/suspicious/noTemplateCurlyInString: said above */

it.for(shells)('completion works in %s', ([shell, args], { skip }) => {
  if (spawnSync(shell, ['--version']).status !== 0)
    skip(`${shell} is not installed, so its completion was not tried.`);
  const { stdout, stderr } = spawnSync(shell, [...args, process.execPath, bin], { encoding: 'utf8' });
  expect([stdout, stderr]).toEqual([expect.stringMatching(/\blist\b/), '']);
  expect(live.run(['completion', 'tcsh']).err).toContain('bash, zsh or fish');
});
