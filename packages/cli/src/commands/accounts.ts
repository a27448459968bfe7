// rowhouse accounts: creates, lists, limits, changes, suspends, deletes and restores accounts, for operators.
import type {
  Account,
  AccountResponse,
  AccountsResponse,
  ChangeAccount,
  CreateAccount,
  CreatedAccountResponse,
  IssuedAccountKeyResponse,
  Role,
} from '@rowhouse/api';
import { type Command, Option } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { askToDelete } from '../ask.ts';
import { failure } from '../failure.ts';
import { show, showList } from '../output.ts';
import { warnOfLink } from '../shared-links.ts';
import { clean, formatFields, formatTable } from '../table.ts';

export function addAccounts(program: Command): void {
  const accounts = program
    .command('accounts')
    .summary('create, list, limit, suspend, delete and restore accounts')
    .description('Create, list, limit, suspend, delete and restore accounts. Needs an operator key.');
  const add = (usage: string, about: string) => withApiOptions(accounts.command(usage).description(about));

  withListOptions(accounts.command('list').description('List accounts.'))
    .option('--deleted', 'list deleted accounts instead')
    .action(list);
  withLimits(add('create <name>', 'Create an account. Prints its first key, which is shown only once.'))
    .option('--owner-email <address>', 'invite the first owner: prints a link to send, unless it is mailed')
    .action(create);
  add('change <id>', 'Change whether the owners and admins of an account may do what an operator may.')
    .addOption(new Option('--operator <on|off>').choices(['on', 'off']).makeOptionMandatory())
    .action((id, options) => change(id, { is_operator: options.operator === 'on' }, options));
  withLimits(add('limit <id>', 'Change the limits of an account.')).action(limit);
  add('rename <id> <name>', 'Rename an account.').action((id, name, options) =>
    change(id, { name }, options),
  );
  add('suspend <id>', 'Suspend an account: its requests and connections are refused, its data is kept.')
    .requiredOption('--reason <text>', 'what its callers are told')
    .action((id, options) => change(id, { suspended_because: options.reason }, options));
  add('resume <id>', 'End the suspension of an account.').action((id, options) =>
    change(id, { suspended_because: null }, options),
  );
  add('key <id>', 'Issue a key of an account, for example if all are lost. It is shown only once.')
    .option('--name <text>', 'name of the key', 'given by the operator')
    .option('--role <role>', 'viewer, developer, admin or owner', 'owner')
    .action(issueKey);
  add('delete <id>', 'Delete an account with its projects. Both can be restored for some days.')
    .option('--yes', 'delete without confirmation')
    .action(remove);
  add('restore <id>', 'Restore a deleted account with its projects.').action(restore);
}

type Limits = { maxProjects?: string; maxTotalMb?: string; maxRequestsPerSecond?: string };

function withLimits(command: Command): Command {
  return command
    .option('--max-projects <number>', 'how many projects; none: no limit')
    .option('--max-total-mb <number>', 'sum of limit_mb of its projects; none: no limit')
    .option('--max-requests-per-second <number>', 'requests a second; none: no limit');
}

function limitsOf(options: Limits) {
  const read = (name: string, text: string | undefined) => {
    if (text === undefined) return {};
    if (text === 'none') return { [name]: null };
    if (!/^\d{1,12}$/.test(text))
      throw failure('invalid_request', `"${text}" is neither a number nor none.`, 'Pass a number, or none.');
    return { [name]: Number(text) };
  };
  return {
    ...read('max_projects', options.maxProjects),
    ...read('max_total_mb', options.maxTotalMb),
    ...read('max_requests_per_second', options.maxRequestsPerSecond),
  };
}

async function list(options: ApiOptions & { deleted?: boolean }): Promise<void> {
  const answer = await listAll(options);
  showList(options, answer, answer.accounts, {
    table: () =>
      formatTable(
        ['id', 'name', 'status', 'projects', 'limit_mb'].map((title) => ({ title })),
        answer.accounts.map(({ id, name, status, projects, total_limit_mb: mb }) => [
          ...[id, name, status, String(projects), String(mb)],
        ]),
      ),
    empty: options.deleted ? 'No deleted account can be restored.' : 'There are no accounts.',
  });
}

/** All pages as one answer. */
async function listAll(options: ApiOptions & { deleted?: boolean }): Promise<AccountsResponse> {
  const limit = 1000;
  const accounts: Account[] = [];
  for (let page = 1; ; page++) {
    const query = { limit, page, ...(options.deleted && { status: 'deleted' }) };
    const answer = await callApi<AccountsResponse>(options, 'GET', ['accounts'], { query });
    accounts.push(...answer.accounts);
    if (!answer.has_more) return { ...answer, accounts, page: 1, limit: accounts.length };
  }
}

type CreateOptions = ApiOptions & Limits & { ownerEmail?: string };

async function create(name: string, { ownerEmail: email, ...options }: CreateOptions): Promise<void> {
  const body: CreateAccount = { name, ...limitsOf(options), ...(email && { owner_email: email }) };
  const answer = await callApi<CreatedAccountResponse>(options, 'POST', ['accounts'], { body });
  show(options, answer, ({ account, api_key: key, invitation_link: link }) =>
    formatFields([
      ...fieldsOf(account),
      ['key', key],
      ...(email ? [['invitation', link ?? `mailed to ${email}`] as [string, string]] : []),
    ]),
  );
  warnOfLink(options, answer.invitation_link);
}

async function limit(id: string, options: ApiOptions & Limits): Promise<void> {
  await change(id, limitsOf(options), options);
}

async function change(id: string, body: ChangeAccount, options: ApiOptions): Promise<void> {
  const answer = await callApi<AccountResponse>(options, 'PATCH', ['accounts', id], { body });
  show(options, answer, ({ account }) => formatFields(fieldsOf(account)));
}

async function issueKey(id: string, options: ApiOptions & { name: string; role: string }): Promise<void> {
  const body = { name: options.name, role: options.role as Role };
  const answer = await callApi<IssuedAccountKeyResponse>(options, 'POST', ['accounts', id, 'keys'], { body });
  show(options, answer, ({ key, api_key: apiKey }) =>
    formatFields([
      ['id', key.id],
      ['role', key.role],
      ['key', apiKey],
    ]),
  );
}

async function remove(id: string, options: ApiOptions & { yes?: boolean }): Promise<void> {
  if (!options.yes) {
    await askToDelete(options, id, async () => {
      const { account } = await callApi<AccountResponse>(options, 'GET', ['accounts', id]);
      return `the account "${account.name}" with ${account.projects} projects`;
    });
  }
  const answer = await callApi<AccountResponse>(options, 'DELETE', ['accounts', id]);
  show(options, answer, ({ account }) =>
    clean(
      `Account ${account.name} is deleted. Until ${account.dropped_after}: rowhouse accounts restore ${id}`,
    ),
  );
}

async function restore(id: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<AccountResponse>(options, 'POST', ['accounts', id, 'restore']);
  show(options, answer, ({ account }) => formatFields(fieldsOf(account)));
}

function fieldsOf(account: Account): [string, string][] {
  const limit = (value: number | null) => (value === null ? 'none' : String(value));
  return [
    ['id', account.id],
    ['name', account.name],
    ['status', account.status],
    ...(account.suspended_because === null
      ? []
      : [['reason', account.suspended_because] as [string, string]]),
    ['projects', `${account.projects} of ${limit(account.max_projects)}`],
    ['limit_mb', `${account.total_limit_mb} of ${limit(account.max_total_mb)}`],
    ['requests/s', limit(account.max_requests_per_second)],
    ...(account.is_operator ? [['operator', 'yes'] as [string, string]] : []),
  ];
}
