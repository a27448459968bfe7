// In a linked folder, the project may be left out: `rowhouse keys list` instead of `rowhouse keys list my-shop`.
import type { Command } from 'commander';
import { linkedProject, noProject } from './profiles.ts';

/** A project is deleted and brought back only by its name. */
const byNameOnly = ['projects delete', 'projects restore', 'branches reset', 'branches promote'];

/** For all commands whose first argument is a project. */
export function fillProjects(program: Command): void {
  for (const group of program.commands) {
    fillProject(group, group.name());
    for (const command of group.commands) fillProject(command, `${group.name()} ${command.name()}`);
  }
}

/** Commander calls `missingArgument` before it reads the arguments. */
function fillProject(command: Command, name: string): void {
  const [first] = command.registeredArguments;
  if (!first || !['slug', 'project'].includes(first.name()) || byNameOnly.includes(name)) return;
  const required = command.registeredArguments.filter((argument) => argument.required).length;
  const refuse = command as unknown as { missingArgument(name: string): void };
  const usual = refuse.missingArgument.bind(command);
  refuse.missingArgument = (missing) => {
    if (command.args.length !== required - 1) return usual(missing);
    const project = linkedProject();
    if (!project) throw noProject();
    command.args.unshift(project);
  };
}
