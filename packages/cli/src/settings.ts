// The service's settings as flags. A flag sets the environment variable of its setting for the program that is started.
import { defaultOf, flagOf, type Setting, type SettingName, settings } from '@rowhouse/api/settings';
import { type Command, Option } from 'commander';

const all: readonly [string, Setting][] = Object.entries(settings);

/** Adds the flags of these settings, or of all settings. */
export function withSettings(command: Command, only?: readonly SettingName[]): Command {
  for (const [name, setting] of all) {
    const isWanted = !only || only.some((wanted) => wanted === name);
    if (isWanted) command.addOption(new Option(flagOf(name, setting), helpOf(name, setting)));
  }
  return command;
}

/** The environment for a program of the service: our own, overridden by the flags. */
export function environmentOf(options: Readonly<Record<string, unknown>>): NodeJS.ProcessEnv {
  const given = all.flatMap(([name, setting]) => {
    const value = options[new Option(flagOf(name, setting)).attributeName()];
    return value === undefined ? [] : [[name, String(value)]];
  });
  return { ...process.env, ...Object.fromEntries(given) };
}

function helpOf(name: string, setting: Setting): string {
  const facts = [
    ...(setting.type === 'integer' ? [`${setting.min} to ${setting.max}`] : []),
    ...(setting.type === 'choice' ? [setting.choices.join(', ')] : []),
    ...(setting.type === 'boolean' ? [] : [`default: ${defaultOf(setting)}`]),
    ...(setting.secret ? ['secret'] : []),
    `env: ${name}`,
  ];
  return `${setting.description} (${facts.join('; ')})`;
}
