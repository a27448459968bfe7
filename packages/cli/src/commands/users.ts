// rowhouse users: lists, creates, bans and deletes the end users of a project, and issues codes for lost passwords.
import type {
  ChangeUser,
  CreateUser,
  HandedCodeResponse,
  Recover,
  SignedOutResponse,
  User,
  UserResponse,
  UsersResponse,
} from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { askToDelete } from '../ask.ts';
import { failure } from '../failure.ts';
import { positive } from '../numbers.ts';
import { note, show, showList } from '../output.ts';
import { clean, formatFields, formatTable } from '../table.ts';
import { formatTime } from '../when.ts';

export function addUsers(program: Command): void {
  const users = program
    .command('users')
    .summary("list, create, ban and delete a project's end users")
    .description("List, create, ban and delete a project's end users.");
  const add = (usage: string, about: string) => withApiOptions(users.command(usage).description(about));

  withListOptions(users.command('list <slug>').description("List a project's users, newest first."))
    .option('--search <text>', 'part of an email address, or a complete id')
    .option('--limit <number>', 'users per page (default: 50)', positive)
    .option('--page <number>', 'page number (default: 1)', positive)
    .action(list);
  add('create <slug> <email>', 'Create a user without a password. `recover` prints a code to set one.')
    .option('--role <role>', "role in the user's tokens (default: authenticated)")
    .option('--verified', 'mark the email address as verified')
    .action(create);
  add('show <slug> <user>', 'Show a user, by email address or id.').action(showOne);
  add('change <slug> <user>', 'Change the email address, the role or the verification of a user.')
    .option('--email <email>', 'new email address')
    .option('--role <role>', "role in the user's tokens")
    .option('--verified', 'mark the email address as verified')
    .option('--not-verified', 'mark the email address as not verified')
    .action(changeOne);
  add('sign-out <slug> <user>', 'End all sessions of a user.').action(signOut);
  add('ban <slug> <user>', 'Ban a user. All sessions of the user end at once.').action(ban);
  add('unban <slug> <user>', 'Allow a banned user to sign in again.').action(unban);
  add('recover <slug> <user>', 'Print a one-time code for setting a new password.').action(recover);
  add('delete <slug> <user>', 'Delete a user, and the rows that reference the user with on delete cascade.')
    .option('--yes', 'delete without confirmation')
    .action(remove);
}

type ListOptions = ApiOptions & { search?: string; limit?: number; page?: number };

async function list(slug: string, options: ListOptions): Promise<void> {
  const { search, limit, page } = options;
  const query = { search, limit, page };
  const answer = await callApi<UsersResponse>(options, 'GET', pathOf(slug), { query });
  const none = search === undefined ? 'There are no users yet.' : 'No user matches.';
  showList(options, answer, answer.users, {
    table: () => tableOf(answer.users),
    empty: answer.page > 1 ? 'This page is empty.' : none,
  });
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

async function showOne(slug: string, name: string, options: ApiOptions): Promise<void> {
  const user = await getUser(slug, name, options);
  show(options, { ok: true, user }, () => formatFields(fieldsOf(user)));
}

type ChangeOptions = ApiOptions & {
  email?: string;
  role?: string;
  verified?: boolean;
  notVerified?: boolean;
};

async function changeOne(slug: string, name: string, options: ChangeOptions): Promise<void> {
  const { email, role, verified, notVerified } = options;
  const body: ChangeUser = {
    ...(email !== undefined && { email }),
    ...(role !== undefined && { role }),
    ...((verified || notVerified) && { email_verified: verified === true }),
  };
  if (Object.keys(body).length === 0)
    throw failure('invalid_request', 'Nothing is to be changed.', 'Add --email, --role or --verified.');
  return change(slug, name, body, options);
}

async function signOut(slug: string, name: string, options: ApiOptions): Promise<void> {
  const user = await getUser(slug, name, options);
  const path = [...pathOf(slug, user.id), 'sessions'];
  const answer = await callApi<SignedOutResponse>(options, 'DELETE', path);
  show(options, answer, ({ ended }) => clean(`Ended ${ended} sessions of ${user.email}.`));
}

function ban(slug: string, name: string, options: ApiOptions): Promise<void> {
  return change(slug, name, { banned: true }, options);
}

function unban(slug: string, name: string, options: ApiOptions): Promise<void> {
  return change(slug, name, { banned: false }, options);
}

async function change(slug: string, name: string, body: ChangeUser, options: ApiOptions): Promise<void> {
  const { id } = await getUser(slug, name, options);
  const answer = await callApi<UserResponse>(options, 'PATCH', pathOf(slug, id), { body });
  show(options, answer, ({ user }) => formatFields(fieldsOf(user)));
}

/** By id, or by email address without regard to case. */
async function getUser(slug: string, name: string, options: ApiOptions): Promise<User> {
  if (!name.includes('@')) return (await callApi<UserResponse>(options, 'GET', pathOf(slug, name))).user;
  for (let page = 1; ; page++) {
    const query = { search: name.trim(), limit: 1000, page };
    const answer = await callApi<UsersResponse>(options, 'GET', pathOf(slug), { query });
    const user = answer.users.find(({ email }) => email.toLowerCase() === name.trim().toLowerCase());
    if (user) return user;
    if (!answer.has_more)
      throw failure(
        'user_not_found',
        `The project has no user "${name}".`,
        `List them: rowhouse users list ${slug}`,
      );
  }
}

async function recover(slug: string, name: string, options: ApiOptions): Promise<void> {
  const { email } = await getUser(slug, name, options);
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

async function remove(slug: string, name: string, options: ApiOptions & { yes?: boolean }): Promise<void> {
  const { id, email } = await getUser(slug, name, options);
  if (!options.yes) await askToDelete(options, name, async () => `user ${email} permanently`);
  const answer = await callApi<UserResponse>(options, 'DELETE', pathOf(slug, id));
  show(options, answer, ({ user }) => clean(`User ${user.email} is deleted.`));
}

function pathOf(slug: string, ...id: string[]): string[] {
  return ['projects', slug, 'auth', 'users', ...id];
}

function fieldsOf(user: User): [string, string][] {
  return [
    ['id', user.id],
    ['email', user.email],
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
      { title: 'EMAIL', max: 60 },
      { title: 'ROLE', max: 30 },
      { title: 'CREATED' },
      { title: 'SIGNED IN' },
      { title: 'VERIFIED' },
      { title: 'BANNED' },
    ],
    users.map((user) => fieldsOf(user).map(([, value]) => value)),
  );
}
