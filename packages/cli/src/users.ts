// rowhouse users: lists, creates, bans and deletes the end users of a project, and issues codes for lost passwords.
import type {
  ChangeUser,
  CreateUser,
  HandedCodeResponse,
  Recover,
  User,
  UserResponse,
  UsersResponse,
} from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions } from './api.ts';
import { askToDelete } from './ask.ts';
import { positive } from './numbers.ts';
import { note, show } from './output.ts';
import { clean, formatFields, formatTable } from './table.ts';
import { formatTime } from './when.ts';

export function addUsers(program: Command): void {
  const users = program
    .command('users')
    .summary("list, create, ban and delete a project's end users")
    .description("List, create, ban and delete a project's end users.");
  const add = (usage: string, about: string) => withApiOptions(users.command(usage).description(about));

  add('list <slug>', "List a project's users, newest first.")
    .option('--search <text>', 'part of an e-mail address, or a complete id')
    .option('--limit <number>', 'users per page (default: 50)', positive)
    .option('--page <number>', 'page number (default: 1)', positive)
    .action(list);
  add('create <slug> <email>', 'Create a user without a password. `recover` prints a code to set one.')
    .option('--role <role>', "role in the user's tokens (default: authenticated)")
    .option('--verified', 'mark the e-mail address as verified')
    .action(create);
  add('ban <slug> <id>', 'Ban a user. All sessions of the user end at once.').action(ban);
  add('unban <slug> <id>', 'Allow a banned user to sign in again.').action(unban);
  add('recover <slug> <email>', 'Print a one-time code for setting a new password.').action(recover);
  add('delete <slug> <id>', 'Delete a user, and the rows that reference the user with on delete cascade.')
    .option('--yes', 'delete without confirmation')
    .action(remove);
}

type ListOptions = ApiOptions & { search?: string; limit?: number; page?: number };

async function list(slug: string, options: ListOptions): Promise<void> {
  const { search, limit, page } = options;
  const query = { search, limit, page };
  const answer = await callApi<UsersResponse>(options, 'GET', pathOf(slug), { query });
  if (answer.users.length > 0 || options.json) show(options, answer, ({ users }) => tableOf(users));
  else if (answer.page > 1) note(options, 'This page is empty.');
  else if (search !== undefined) note(options, 'No user matches.');
  else note(options, 'There are no users yet.');
  if (answer.has_more) note(options, `There are more users: add --page ${answer.page + 1}`);
}

type CreateOptions = ApiOptions & { role?: string; verified?: boolean };

async function create(slug: string, email: string, options: CreateOptions): Promise<void> {
  const body: CreateUser = {
    email,
    ...(options.role !== undefined && { role: options.role }),
    ...(options.verified && { email_verified: true }),
  };
  const answer = await callApi<UserResponse>(options, 'POST', pathOf(slug), { body });
  show(options, answer, ({ user }) => formatFields(fieldsOf(user)));
}

function ban(slug: string, id: string, options: ApiOptions): Promise<void> {
  return change(slug, id, { banned: true }, options);
}

function unban(slug: string, id: string, options: ApiOptions): Promise<void> {
  return change(slug, id, { banned: false }, options);
}

async function change(slug: string, id: string, body: ChangeUser, options: ApiOptions): Promise<void> {
  const answer = await callApi<UserResponse>(options, 'PATCH', pathOf(slug, id), { body });
  show(options, answer, ({ user }) => formatFields(fieldsOf(user)));
}

async function recover(slug: string, email: string, options: ApiOptions): Promise<void> {
  const body: Recover = { email };
  const path = ['projects', slug, 'auth', 'recover'];
  const answer = await callApi<HandedCodeResponse>(options, 'POST', path, { body });
  show(options, answer, ({ code, expires_at: end }) =>
    formatFields([
      ['code', `${code}   (works once; keep it secret: it sets the password)`],
      ['expires', formatTime(end)],
    ]),
  );
}

async function remove(slug: string, id: string, options: ApiOptions & { yes?: boolean }): Promise<void> {
  if (!options.yes) {
    await askToDelete(options, id, async () => {
      const { user } = await callApi<UserResponse>(options, 'GET', pathOf(slug, id));
      return `user ${user.email} permanently`;
    });
  }
  const answer = await callApi<UserResponse>(options, 'DELETE', pathOf(slug, id));
  show(options, answer, ({ user }) => clean(`User ${user.email} is deleted.`));
}

function pathOf(slug: string, ...id: string[]): string[] {
  return ['projects', slug, 'auth', 'users', ...id];
}

function fieldsOf(user: User): [string, string][] {
  return [
    ['id', user.id],
    ['e-mail', user.email],
    ['role', user.role],
    ['created', formatTime(user.created_at)],
    ['signed in', formatTime(user.last_sign_in_at)],
    ['verified', formatTime(user.email_verified_at)],
    ['banned', formatTime(user.banned_at)],
  ];
}

function tableOf(users: readonly User[]): string {
  return formatTable(
    [
      { title: 'ID' },
      { title: 'E-MAIL', max: 60 },
      { title: 'ROLE', max: 30 },
      { title: 'CREATED' },
      { title: 'SIGNED IN' },
      { title: 'VERIFIED' },
      { title: 'BANNED' },
    ],
    users.map((user) => fieldsOf(user).map(([, value]) => value)),
  );
}
