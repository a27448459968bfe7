// rowhouse login, logout, profiles and whoami: which service the commands talk to, and with which key.
import path from 'node:path';
import { text as readAll } from 'node:stream/consumers';
import { isCancel, password } from '@clack/prompts';
import type { OwnAccountResponse, ProjectsResponse } from '@rowhouse/api';
import { type Command, Option } from 'commander';
import {
  type ApiOptions,
  authorityOption,
  callApi,
  defaultUrl,
  listFormats,
  readUrl,
  withApiOptions,
} from '../api.ts';
import { trustAuthority } from '../authority.ts';
import { changeConfig, configFolder, type Profile, readConfig } from '../config-file.ts';
import { Failure, failure } from '../failure.ts';
import { removeKey, storeKey } from '../keyring.ts';
import { note, type OutputOptions, show, showList } from '../output.ts';
import { linkedProject, profileOf } from '../profiles.ts';
import { clean, formatFields, formatTable } from '../table.ts';

const firstName = 'default';

export function addLogin(program: Command): void {
  program
    .command('login')
    .summary('store the address of a service and a key, as a profile')
    .description(
      'Store the address of a service and a key as a profile, which later commands use. The key is asked for without ' +
        'showing it, or read from stdin. It goes into the keyring of the system (secret-tool or security), or else into a ' +
        'file that only you can read.',
    )
    .addOption(new Option('--url <url>', 'address of the service').env('ROWHOUSE_URL').default(defaultUrl))
    .option('--profile <name>', 'name of the profile', firstName)
    .option('--file', 'store the key in the file, even if there is a keyring')
    .addOption(authorityOption())
    .option('--json', 'print the result as JSON')
    .action(login);
  program
    .command('logout')
    .summary('forget the key of a profile')
    .description('Forget a profile and its key. The key itself stays valid: rowhouse keys revoke ends it.')
    .option('--profile <name>', 'name of the profile (default: the one in use)')
    .option('--json', 'print the result as JSON')
    .action(logout);
  const profiles = program
    .command('profiles')
    .summary('list, choose and remove profiles')
    .description('List, choose and remove profiles. To make one: rowhouse login --profile <name>');
  profiles
    .command('list')
    .description('List profiles. The one in use has a star.')
    .addOption(
      new Option('-o, --output <format>', 'how to print the list').choices(listFormats).default('table'),
    )
    .option('--json', 'print the list as JSON')
    .action(list);
  profiles
    .command('use <name>')
    .description('Use this profile in all commands that name none.')
    .option('--json', 'print the result as JSON')
    .action(use);
  profiles
    .command('remove <name>')
    .description('Forget a profile and its key.')
    .option('--json', 'print the result as JSON')
    .action((name: string, options: OutputOptions) => logout({ ...options, profile: name }));
  withApiOptions(
    program
      .command('whoami')
      .summary('show the service, the key and the project that commands use')
      .description('Show the service, the key and the project that commands use here.'),
  ).action(whoami);
}

type LoginOptions = OutputOptions & { url: string; profile: string; file?: boolean; ca?: string };

async function login(options: LoginOptions): Promise<void> {
  const { profile: name } = options;
  if (!/^[\w.-]{1,64}$/.test(name))
    throw failure('invalid_request', `"${name}" is not a valid name.`, 'Use letters, digits and . _ -');
  const url = readUrl(options.url);
  const ca = options.ca === undefined ? undefined : path.resolve(options.ca);
  if (ca !== undefined) trustAuthority(ca);
  const key = await askKey(url);
  const about = await aboutKey({ ...options, url, key });
  // Before the file says so: a profile never names a key that is nowhere.
  const keyring = options.file ? null : storeKey(name, key);
  const profile: Profile = { url, ...(keyring ? { keyring } : { key }), ...(ca !== undefined && { ca }) };
  changeConfig((config) => {
    const before = config.profiles[name];
    if (before?.keyring && !keyring) removeKey(before.keyring, name);
    config.profiles[name] = profile;
    config.current = name;
  });
  const place = keyring ? `the keyring (${keyring})` : configFolder();
  const answer = { ok: true, profile: name, url, ...about, stored_in: keyring ?? 'file' };
  show(options, answer, () =>
    clean(`Logged in to ${url} as ${describe(about)}. Profile "${name}" is in use; its key is in ${place}.`),
  );
}

/** Never on the command line, which other users can list, and never shown. */
async function askKey(url: string): Promise<string> {
  const { stdin, stderr } = process;
  const fromEnvironment = process.env.ROWHOUSE_API_KEY?.trim();
  if (fromEnvironment) return checkForm(fromEnvironment);
  if (!stdin.isTTY) return checkForm((await readAll(stdin)).trim());
  const given = await password({ message: `API key for ${clean(url)}`, output: stderr, withGuide: false });
  if (isCancel(given)) throw failure('not_confirmed', 'Nothing was stored.');
  return checkForm((given ?? '').trim());
}

function checkForm(key: string): string {
  if (/^rh_(acct|proj|oper)_\w+$/.test(key)) return key;
  if (key === '')
    throw failure(
      'missing_api_key',
      'The command needs a key.',
      'Run it on a terminal, or pipe the key in: rowhouse login < key.txt',
    );
  // Never in the message: it may be a mistyped key, or another secret.
  throw failure(
    'invalid_api_key',
    'This is not a key for the command line.',
    'Use an account key (rh_acct_…), a project or scoped key (rh_proj_…), or an operator key (rh_oper_…).',
  );
}

type About = { kind: 'account' | 'project' | 'operator'; account?: string; role?: string; project?: string };

/** Throws if the service refuses the key. */
async function aboutKey(options: ApiOptions): Promise<About> {
  if (options.key?.startsWith('rh_oper_')) {
    await callApi(options, 'GET', ['accounts'], { query: { limit: 1 } });
    return { kind: 'operator' };
  }
  if (options.key?.startsWith('rh_acct_')) {
    const { account, role } = await callApi<OwnAccountResponse>(options, 'GET', ['account']);
    return { kind: 'account', account: account.name, role };
  }
  const answer = await callApi<ProjectsResponse>(options, 'GET', ['projects'], { query: { limit: 1 } });
  return { kind: 'project', ...(answer.projects[0] && { project: answer.projects[0].slug }) };
}

function describe({ kind, account, role, project }: About): string {
  if (kind === 'operator') return 'operator';
  return kind === 'account' ? `${role} of the account "${account}"` : `a key of the project ${project}`;
}

function logout(options: OutputOptions & { profile?: string }): void {
  const config = readConfig();
  const name = options.profile ?? config.current;
  if (name === undefined) throw failure('profile_not_found', 'No profile is in use.');
  const { keyring } = profileOf(config, name);
  if (keyring) removeKey(keyring, name);
  changeConfig((changed) => {
    delete changed.profiles[name];
    if (changed.current === name) delete changed.current;
  });
  show(options, { ok: true, profile: name }, () => clean(`Profile "${name}" and its key are forgotten.`));
}

function list(options: OutputOptions): void {
  const { profiles, current } = readConfig();
  const rows = Object.entries(profiles).map(([name, { url, keyring }]) => ({
    name,
    url,
    key_in: keyring ?? 'file',
    is_current: name === current,
  }));
  showList(options, { ok: true, profiles: rows }, rows, {
    table: () =>
      formatTable(
        [{ title: '' }, { title: 'NAME' }, { title: 'ADDRESS' }, { title: 'KEY IN' }],
        rows.map(({ name, url, key_in: place, is_current: is }) => [is ? '*' : '', name, url, place]),
      ),
    empty: 'There are no profiles yet. Make one: rowhouse login',
  });
}

function use(name: string, options: OutputOptions): void {
  changeConfig((config) => {
    profileOf(config, name);
    config.current = name;
  });
  show(options, { ok: true, profile: name }, () => clean(`Commands use the profile "${name}".`));
}

async function whoami(options: ApiOptions & { profile?: string }): Promise<void> {
  const project = linkedProject();
  const url = readUrl(options.url);
  const about = await aboutKey(options).catch((error: unknown) => {
    if (error instanceof Failure && error.body.error.code === 'missing_api_key')
      note(options, clean(`Address: ${url}`));
    throw error;
  });
  const answer = { ok: true, url, ...about, ...(project && { linked_project: project }) };
  show(options, answer, () =>
    formatFields([
      ['address', url],
      ['key', `${(options.key ?? '').slice(0, 12)}…, ${describe(about)}`],
      ['project', project ?? 'none: rowhouse link <project>'],
    ]),
  );
}
