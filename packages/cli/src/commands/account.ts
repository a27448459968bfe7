// rowhouse account: the account of the key, and its keys.
import type {
  AccountKey,
  AccountKeyResponse,
  AccountKeysResponse,
  AccountResponse,
  ChangeOwnAccount,
  IssueAccountKey,
  IssuedAccountKeyResponse,
  OwnAccountResponse,
} from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { show, showList } from '../output.ts';
import { clean, formatFields, formatTable } from '../table.ts';
import { formatTime, parseWhen } from '../when.ts';

const path = ['account', 'keys'];

export function addAccount(program: Command): void {
  const account = program
    .command('account')
    .summary('show and change your account; list, issue and revoke its keys')
    .description('Show and change your account, and list, issue and revoke its keys. Needs an account key.');

  withApiOptions(account.command('show').description('Show the account of the key.')).action(showOne);
  withApiOptions(
    account
      .command('require-second-factor')
      .description(
        'Require a second factor of all members. Without one, a member reaches only their profile.',
      ),
  )
    .option('--off', 'require it no longer')
    .action(requireFactor);
  withListOptions(account.command('keys').description('List the keys of the account.')).action(list);
  withApiOptions(account.command('issue-key').description('Issue a key. It is shown only once.'))
    .requiredOption('--name <name>', 'name that says what the key is for')
    .option('--role <role>', 'viewer, developer, admin or owner (default: developer)')
    .option('--expires <when>', 'when it expires: 30d or 2027-01-31 (default: never)', (text) =>
      parseWhen(text),
    )
    .action(issue);
  withApiOptions(account.command('revoke-key <id>').description('Revoke a key.')).action(revoke);
}

async function showOne(options: ApiOptions): Promise<void> {
  const answer = await callApi<OwnAccountResponse>(options, 'GET', ['account']);
  const limit = (value: number | null) => (value === null ? 'any number' : value);
  show(options, answer, ({ account, role }) =>
    formatFields([
      ['id', account.id],
      ['name', account.name],
      ['role', role],
      ['projects', `${account.projects} of ${limit(account.max_projects)}`],
      ['limit_mb', `${account.total_limit_mb} of ${limit(account.max_total_mb)}`],
    ]),
  );
}

async function requireFactor({ off, ...options }: ApiOptions & { off?: boolean }): Promise<void> {
  const body: ChangeOwnAccount = { requires_second_factor: !off };
  const answer = await callApi<AccountResponse>(options, 'PATCH', ['account'], { body });
  show(options, answer, ({ account: { name, requires_second_factor: isRequired } }) =>
    clean(`Members of ${name} ${isRequired ? 'must' : 'need not'} have a second factor.`),
  );
}

async function list(options: ApiOptions): Promise<void> {
  const answer = await callApi<AccountKeysResponse>(options, 'GET', path);
  showList(options, answer, answer.keys, {
    table: () =>
      formatTable(
        ['ID', 'NAME', 'ROLE', 'BEGINS', 'STATUS', 'EXPIRES', 'LAST USED', 'ISSUED BY'].map((title) => ({
          title,
          max: 40,
        })),
        answer.keys.map((key) => rowOf(key)),
      ),
    empty: 'The account has no keys.',
  });
}

type IssueOptions = ApiOptions & {
  name: string;
  role?: NonNullable<IssueAccountKey['role']>;
  expires?: string;
};

async function issue({ name, role, expires, ...options }: IssueOptions): Promise<void> {
  const body: IssueAccountKey = { name, ...(role && { role }), ...(expires && { expires_at: expires }) };
  const answer = await callApi<IssuedAccountKeyResponse>(options, 'POST', path, { body });
  show(options, answer, ({ key, api_key: secret }) =>
    formatFields([
      ['id', key.id],
      ['name', key.name],
      ['role', key.role],
      ['expires', key.expires_at ? formatTime(key.expires_at) : 'never'],
      ['key', `${secret}   This key is shown only once. Store it now.`],
    ]),
  );
}

async function revoke(id: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<AccountKeyResponse>(options, 'DELETE', [...path, id]);
  show(options, answer, ({ key }) => clean(`Key ${key.id} (${key.name}) is revoked.`));
}

function rowOf(key: AccountKey): string[] {
  const { id, name, role, start, status } = key;
  const times = [formatTime(key.expires_at), formatTime(key.last_used_at)];
  return [id, name, role, start, status, ...times, key.issued_by?.email ?? '-'];
}
