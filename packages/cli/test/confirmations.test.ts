// Commands that delete or replace something, without a terminal: nothing is sent, and the message says what to add.
import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { createProgram } from '../src/commands/commands.ts';
import { leavesOf } from '../src/project-argument.ts';
import { bare, bin } from './installation.ts';

/** With the arguments that make it ask. Those that look first what there is need a service. */
const asks: Record<string, string[]> = {
  'projects delete': ['shop'],
  'projects restore': ['shop', '--to', '5m', '--in-place'],
  'branches reset': ['preview'],
  'branches promote': ['preview'],
  'snapshots delete': ['shop', 'before'],
  'accounts delete': ['acc_1'],
  'master-key rotate': ['--data', '/nowhere'],
};
const looksFirst = ['users delete', 'servers remove'];

it('each command with --yes is known here', () => {
  const withYes = leavesOf(createProgram())
    .filter(([, command]) => command.options.some(({ long }) => long === '--yes'))
    .map(([name]) => name);
  expect(withYes.sort()).toEqual([...Object.keys(asks), ...looksFirst].sort());
});

function run(name: string, args: readonly string[]) {
  const env = { ...bare, XDG_CONFIG_HOME: '/nowhere', NO_COLOR: '1' };
  // Nobody listens there: a request is exit status 3.
  const access = name.startsWith('master-key') ? [] : ['--url', 'http://127.0.0.1:9', '--key', 'rh_acct_x'];
  const all = [bin, ...name.split(' '), ...args, ...access];
  return spawnSync(process.execPath, all, { env, encoding: 'utf8', input: '' });
}

it.each(Object.entries(asks))('%s', (name, args) => {
  const { status, stdout, stderr } = run(name, args);
  expect(status, stderr).toBe(1);
  expect(stdout).toBe('');
  expect(stderr).toMatch(
    /^".+" was not (deleted|replaced|reset|promoted|rotated): a confirmation needs a terminal\.\n→ Add --yes to (delete|replace|reset|promote|rotate) it without confirmation\.\n$/,
  );
});

it('a restore beside the project does not ask', () => {
  const { status, stderr } = run('projects restore', ['shop', '--to', '5m']);
  expect([status, stderr]).toEqual([3, expect.stringContaining('http://127.0.0.1:9')]);
});
