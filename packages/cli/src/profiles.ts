// Which service a command talks to, with which key and about which project: flags, then the environment, then the profile.
import { realpathSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { type ApiOptions, callApi, defaultUrl, readUrl } from './api.ts';
import { trustAuthority } from './authority.ts';
import { type Config, type Link, type Profile, readConfig } from './config-file.ts';
import { failure } from './failure.ts';
import { findKey } from './keyring.ts';

/** Completes the options `url` and `key` of a command that talks to a service. */
export function chooseService(command: Command): void {
  const options = command.opts<Partial<ApiOptions> & { profile?: string }>();
  // `login` has an address and no key.
  if (!command.options.some((option) => option.attributeName() === 'key')) return;
  const isFlag = (name: string) => command.getOptionValueSource(name) === 'cli';
  const isDefault = (name: string) => command.getOptionValueSource(name) === 'default';
  // A profile that is named in the command counts more than what the environment says.
  const ignoresEnvironment = isFlag('profile');
  const given = (name: 'url' | 'key' | 'ca') =>
    isFlag(name) || !(ignoresEnvironment || isDefault(name)) ? options[name]?.trim() || undefined : undefined;
  const config = readConfig();
  const name = profileName(config, options.profile);
  const profile = name === undefined ? undefined : profileOf(config, name);
  const url = given('url') ?? profile?.url ?? defaultUrl;
  command.setOptionValue('url', url);
  // The key of a profile is for its own service only.
  const isProfiles = profile !== undefined && readUrl(url) === profile.url;
  command.setOptionValue('key', given('key') ?? (isProfiles ? keyOf(name as string, profile) : undefined));
  const ca = given('ca') ?? (isProfiles ? profile.ca : undefined);
  command.setOptionValue('ca', ca);
  if (ca !== undefined) trustAuthority(ca);
}

export function profileOf({ profiles }: Config, name: string): Profile {
  const profile = profiles[name];
  if (profile) return profile;
  const others = Object.keys(profiles);
  throw failure(
    'profile_not_found',
    `There is no profile "${name}".`,
    others.length > 0
      ? `Profiles: ${others.join(', ')}. To make it: rowhouse login --profile ${name}`
      : `Make it: rowhouse login --profile ${name}`,
  );
}

export function keyOf(name: string, { key, keyring }: Profile): string {
  const found = key ?? (keyring && findKey(keyring, name));
  if (found) return found;
  throw failure(
    'missing_api_key',
    `The key of profile "${name}" is not in the keyring, or the keyring is locked.`,
    `Unlock the keyring, or store the key again: rowhouse login --profile ${name}`,
  );
}

/** The project of the nearest linked folder. */
export function linkedProject(): string | undefined {
  return process.env.ROWHOUSE_PROJECT?.trim() || findLink(readConfig())?.project;
}

export function thisFolder(): string {
  return realpathSync(process.cwd());
}

/** `--project`, the environment, the linked folder, or the project to which a project key belongs. */
export async function projectOf(options: ApiOptions & { project?: string }): Promise<string> {
  const named = options.project ?? linkedProject();
  if (named) return named;
  if (options.key?.startsWith('rh_proj_')) {
    const { projects } = await callApi<{ projects: { slug: string }[] }>(options, 'GET', ['projects']);
    if (projects[0]) return projects[0].slug;
  }
  throw noProject();
}

export function noProject() {
  return failure(
    'missing_project',
    'The command needs a project.',
    'Name it, or link this folder to one: rowhouse link <project>. To see them: rowhouse projects list',
  );
}

function profileName(config: Config, named: string | undefined): string | undefined {
  return named?.trim() || findLink(config)?.profile || config.current;
}

function findLink({ links }: Config): (Link & { folder: string }) | null {
  for (let folder = thisFolder(); ; folder = path.dirname(folder)) {
    const link = links[folder];
    if (link) return { ...link, folder };
    if (path.dirname(folder) === folder) return null;
  }
}
