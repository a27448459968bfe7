// One rule for the project of a command: the first argument, or -p; else ROWHOUSE_PROJECT or the linked folder, where the
// project may be left out.
import { existsSync } from 'node:fs';
import { type Argument, type Command, Option } from 'commander';
import { failure } from './failure.ts';
import { linkedProject, noProject } from './profiles.ts';

/** A project is deleted and brought back only by its name. */
export const byNameOnly = [
  'projects delete',
  'projects restore',
  'branches reset',
  'branches promote',
  'link',
];
const flags = '-p, --project <slug>';
const about = 'the project, in place of the first argument';

/** SQL of an application, and statements that consist of one word. */
const slug = /^[a-z0-9](?:[a-z0-9]|-(?=[a-z0-9])){1,46}[a-z0-9]$/;
const oneWordStatements = new Set(
  'abort analyse analyze begin checkpoint cluster commit end rollback vacuum'.split(' '),
);

/** What Commander does not publish. */
type Inside = Command & { args: string[]; _processArguments(): void };

export function fillProjects(program: Command): void {
  for (const [name, command] of leavesOf(program)) {
    if (isProject(command.registeredArguments[0])) fillArgument(command, name);
    else if (command.options.some(({ long, variadic }) => long === '--project' && !variadic))
      fillOption(command, name);
  }
}

/** Every command that does something, with its path. */
export function leavesOf(command: Command, path = ''): [string, Command][] {
  return command.commands.flatMap((one) => {
    const name = `${path} ${one.name()}`.trim();
    return one.commands.length > 0 ? leavesOf(one, name) : [[name, one] as [string, Command]];
  });
}

export const isProject = (argument: Argument | undefined) =>
  ['slug', 'project', 'branch'].includes(argument?.name() ?? '');

/** `keys list my-shop` and `keys list -p my-shop`. */
function fillArgument(command: Command, name: string): void {
  command.addOption(new Option(flags, about));
  const required = command.registeredArguments.filter((argument) => argument.required).length;
  before(command, (args) => {
    const given = command.opts<{ project?: string }>().project;
    if (given !== undefined) {
      refuseTwo(command, args);
      args.unshift(given);
    } else if (args.length === required - 1 && !byNameOnly.includes(name)) {
      const project = linkedProject();
      if (!project) throw noProject();
      args.unshift(project);
    }
  });
}

/** `sql my-shop 'select 1'` and `sql -p my-shop 'select 1'`. */
function fillOption(command: Command, name: string): void {
  const own = command.registeredArguments;
  const usage = own.map((argument) => {
    const text = argument.variadic ? `${argument.name()}...` : argument.name();
    return argument.required ? `<${text}>` : `[${text}]`;
  });
  command.usage(['[options] [project]', ...usage].join(' '));
  before(command, (args) => {
    const [first] = args;
    if (command.opts<{ project?: string }>().project !== undefined) return refuseTwo(command, args);
    const isOneMore = !own.at(-1)?.variadic && args.length === own.length + 1;
    if (first === undefined || !(isOneMore || isMeant(name, first))) return;
    args.shift();
    command.setOptionValueWithSource('project', first, 'cli');
  });
}

/** Whether the only argument can be nothing else, although the command has another one. */
function isMeant(name: string, text: string): boolean {
  if (!slug.test(text)) return false;
  switch (name) {
    case 'sql':
      return !oneWordStatements.has(text);
    case 'psql':
      return true;
    case 'seed':
      return !existsSync(text);
    case 'export':
      // In a linked folder, it is the name of the file.
      return linkedProject() === undefined;
    default:
      return false;
  }
}

/** Commander would only count the arguments. */
function refuseTwo(command: Command, args: readonly string[]): void {
  const own = command.registeredArguments;
  const most = isProject(own[0]) ? own.length - 1 : own.length;
  if (args.length > most && !own.at(-1)?.variadic)
    throw failure(
      'ambiguous_project',
      `"${args[0]}" is one argument too many: --project names the project.`,
      'Name the project once: as the first argument, or with -p.',
    );
}

/** Commander has read the options by then, and has not counted the arguments. */
function before(command: Command, change: (args: string[]) => void): void {
  const inside = command as Inside;
  const usual = inside._processArguments.bind(command);
  inside._processArguments = () => {
    change(inside.args);
    usual();
  };
}
