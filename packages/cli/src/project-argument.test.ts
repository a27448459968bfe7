// The project is the first argument or -p, in every command that has one.
import type { Command } from 'commander';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createProgram } from './commands/commands.ts';
import { byNameOnly, isProject, leavesOf } from './project-argument.ts';

/** Those that work on no project, or make one. A new command is either here, or takes a project in both ways. */
const without = [
  'start',
  'status',
  'doctor',
  'service install',
  'service uninstall',
  'service status',
  'master-key export',
  'master-key import',
  'master-key rotate',
  'login',
  'logout',
  'profiles list',
  'profiles use',
  'profiles remove',
  'whoami',
  'unlink',
  'projects create',
  'projects list',
  'projects import',
  'migrate new',
  'backup now',
  'backup list',
  'backup verify',
  'backup prune',
  'servers add',
  'servers list',
  'servers drain',
  'servers adopt',
  'servers attach',
  'servers remove',
  'restore',
  'jobs list',
  'jobs show',
  'jobs cancel',
  'members list',
  'members invite',
  'members change',
  'members remove',
  'people recover',
  'account show',
  'account require-second-factor',
  'account keys',
  'account issue-key',
  'account revoke-key',
  'accounts list',
  'accounts create',
  'accounts change',
  'accounts limit',
  'accounts rename',
  'accounts suspend',
  'accounts resume',
  'accounts key',
  'accounts delete',
  'accounts restore',
  'mcp',
  'completion',
];
/** They mean the whole service, or ask for the name, where no project is given. */
const notFilled = ['logs', 'backup drill', 'audit', ...byNameOnly];
const named = leavesOf(createProgram());
const withProject = named.map(([name]) => name).filter((name) => !without.includes(name));
const environment = { ...process.env };
beforeEach(() => {
  process.env.XDG_CONFIG_HOME = '/nowhere';
  delete process.env.ROWHOUSE_PROJECT;
});
afterEach(() => {
  process.env = { ...environment };
});

type Understood = { project: unknown; rest: unknown[] };

/** What the action of a command gets. */
async function understood(words: readonly string[]): Promise<Understood> {
  const program = createProgram();
  let found: Understood | undefined;
  for (const [, command] of leavesOf(program)) {
    command.exitOverride().configureOutput({ writeErr: () => {}, writeOut: () => {} });
    command.action((...given: unknown[]) => {
      const args = given.slice(0, -2).flat();
      const isFirst = isProject(command.registeredArguments[0]);
      const rest = (isFirst ? args.slice(1) : args).filter((one) => one !== undefined);
      found = { project: isFirst ? args[0] : command.opts().project, rest };
    });
  }
  await program.parseAsync(['node', 'rowhouse', ...words]);
  return found as Understood;
}

const forms: Record<string, string> = { mb: '7', statement: 'select 1', file: 'x.sql', source: 'x.csv' };

/** As many as the command needs, in forms that it reads, with the options that it requires. */
function restOf(command: Command): { args: string[]; options: string[] } {
  const own = command.registeredArguments;
  const args = (isProject(own[0]) ? own.slice(1) : own)
    .filter(({ variadic }) => !variadic)
    .map((argument) => forms[argument.name()] ?? '12');
  const required = command.options.filter(({ mandatory }) => mandatory);
  return { args, options: required.flatMap(({ long }) => [long ?? '', 'x']) };
}

describe('the project of a command', () => {
  it('every command is known', () => {
    const names = named.map(([name]) => name);
    expect(without.filter((name) => !names.includes(name))).toEqual([]);
    expect(notFilled.filter((name) => !withProject.includes(name))).toEqual([]);
    expect(withProject.length).toBeGreaterThan(35);
  });

  it.each(withProject)('%s', async (name) => {
    const command = named.find(([one]) => one === name)?.[1] as Command;
    const { args, options } = restOf(command);
    const words = name.split(' ');
    const wanted = { project: 'my-shop', rest: args.map((arg) => (arg === '7' ? 7 : arg)) };
    for (const line of [
      [...words, 'my-shop', ...args, ...options],
      [...words, ...args, '-p', 'my-shop', ...options],
      [...words, '--project', 'my-shop', ...args, ...options],
      [...words, '-p', 'my-shop', ...options, ...args],
    ])
      expect(await understood(line), line.join(' ')).toEqual(wanted);
    if (!command.registeredArguments.at(-1)?.variadic) {
      const twice = [...words, 'my-shop', ...args, ...options, '-p', 'other'];
      await expect(understood(twice), twice.join(' ')).rejects.toThrow(/Name the project once|too many/);
    }
    process.env.ROWHOUSE_PROJECT = 'my-shop';
    const line = [...words, ...args, ...options];
    if (isProject(command.registeredArguments[0]) && !notFilled.includes(name))
      expect(await understood(line), line.join(' ')).toEqual(wanted);
    else if (byNameOnly.includes(name))
      await expect(understood(line)).rejects.toThrow(/missing required argument/);
    else expect((await understood(line)).rest).toEqual(wanted.rest);
  });
});

describe('one argument that could be two things', () => {
  it.each([
    ['sql my-shop', 'my-shop', []],
    ['sql my-shop --file x.sql', 'my-shop', []],
    ['sql analyze', undefined, ['analyze']],
    ['psql my-shop -- --file x.sql', 'my-shop', ['--file', 'x.sql']],
    ['psql -- --file x.sql', undefined, ['--file', 'x.sql']],
    ['export my-shop', 'my-shop', []],
    ['export my-shop.dump', undefined, ['my-shop.dump']],
    ['seed my-shop', 'my-shop', []],
    ['seed rows.sql', undefined, ['rows.sql']],
    ['import my-shop --table teas', undefined, ['my-shop']],
    ['audit my-shop', 'my-shop', []],
    ['logs', undefined, []],
  ])('%s', async (line, project, rest) => {
    expect(await understood(line.split(' '))).toEqual({ project, rest });
  });

  it('in a linked folder, the only argument of export is its file', async () => {
    process.env.ROWHOUSE_PROJECT = 'other';
    expect(await understood(['export', 'my-shop'])).toEqual({ project: undefined, rest: ['my-shop'] });
  });
});
