// rowhouse members: lists, invites, changes and removes the people who belong to an account.
import type {
  InvitedResponse,
  Member,
  MemberKey,
  MemberKeysResponse,
  MemberResponse,
  MembersResponse,
  RemovedResponse,
  Role,
} from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withListOptions } from '../api.ts';
import { askYesNo, canAsk } from '../ask.ts';
import { failure } from '../failure.ts';
import { show, showList } from '../output.ts';
import { warnOfLink } from '../shared-links.ts';
import { clean, formatFields, formatTable } from '../table.ts';

type MemberOptions = ApiOptions & { role?: string; project?: string[]; allProjects?: boolean };

export function addMembers(program: Command): void {
  const members = program
    .command('members')
    .summary('list, invite, change and remove members of an account')
    .description('List, invite, change and remove the people who belong to an account.');
  const add = (usage: string, about: string) => withApiOptions(members.command(usage).description(about));
  const withProjects = (command: Command) =>
    command.option('--project <slug...>', 'projects that the member sees (default: all)');

  withListOptions(members.command('list').description('List members and open invitations.')).action(list);
  withProjects(
    add(
      'invite <email>',
      'Invite a person by a link that works once, for seven days. It is mailed, or printed if there is no mail server.',
    ).requiredOption('--role <role>', 'viewer, developer, admin or owner'),
  ).action(invite);
  withProjects(add('change <email>', "Change a member's role or projects."))
    .option('--role <role>', 'viewer, developer, admin or owner')
    .option('--all-projects', 'let the member see all projects')
    .action(change);
  add('remove <email>', 'Remove a member, or revoke an invitation.')
    .option('--revoke-keys', 'revoke the keys that the member issued (default: ask on a terminal)')
    .option('--keep-keys', 'keep the keys that the member issued')
    .action(remove);
}

async function list(options: ApiOptions): Promise<void> {
  const answer = await callApi<MembersResponse>(options, 'GET', ['account', 'members']);
  const rows = [
    ...answer.members.map(({ joined_at: since, ...one }) => ({ ...one, since })),
    ...answer.invitations.map((one) => ({ ...one, name: null, since: 'invited' })),
  ].map(({ email, name, role, projects, since }) => ({
    email,
    name: name ?? '',
    role,
    projects: projects?.join(', ') ?? 'all',
    since,
  }));
  showList(options, answer, rows, {
    table: () =>
      formatTable(
        ['email', 'name', 'role', 'projects', 'since'].map((title) => ({ title })),
        rows.map((row) => Object.values(row)),
      ),
    empty: 'The account has no members. Invite one: rowhouse members invite <email> --role <role>',
  });
}

async function invite(email: string, options: MemberOptions): Promise<void> {
  const body = { email, role: options.role as Role, ...(options.project && { projects: options.project }) };
  const answer = await callApi<InvitedResponse>(options, 'POST', ['account', 'invitations'], { body });
  show(options, answer, ({ invitation, link }) =>
    formatFields([
      ['email', invitation.email],
      ['role', invitation.role],
      ['until', invitation.expires_at],
      ['link', link ?? `mailed to ${invitation.email}`],
    ]),
  );
  warnOfLink(options, answer.link);
}

async function change(email: string, options: MemberOptions): Promise<void> {
  const { member } = await find(email, options);
  if (!member) throw missing(email);
  const projects = options.allProjects
    ? { projects: null }
    : options.project && { projects: options.project };
  const body = { ...(options.role && { role: options.role as Role }), ...projects };
  const path = ['account', 'members', member.id];
  const answer = await callApi<MemberResponse>(options, 'PATCH', path, { body });
  show(options, answer, ({ member: now }) =>
    clean(`${now.email} is ${now.role}, and sees ${now.projects?.join(', ') ?? 'all projects'}.`),
  );
}

type RemoveOptions = ApiOptions & { revokeKeys?: boolean; keepKeys?: boolean };

async function remove(email: string, { revokeKeys, keepKeys, ...options }: RemoveOptions): Promise<void> {
  const { member, invitation } = await find(email, options);
  if (member) return removeMember(member, options, keepKeys ? false : revokeKeys);
  if (!invitation) throw missing(email);
  const answer = await callApi<RemovedResponse>(options, 'DELETE', ['account', 'invitations', invitation.id]);
  show(options, answer, () => clean(`${email} is no longer invited.`));
}

async function removeMember(member: Member, options: ApiOptions, given: boolean | undefined): Promise<void> {
  const path = ['account', 'members', member.id];
  const isRevoking = given ?? (await askAboutKeys(member, options, [...path, 'keys']));
  const query = isRevoking ? { revoke_keys: 'true' } : {};
  const answer = await callApi<MemberKeysResponse>(options, 'DELETE', path, { query });
  show(options, answer, ({ keys, unknown_issuer_count: unknown }) =>
    [`${member.email} is no longer a member.`, ...aboutKeys(keys), ...aboutUnknown(unknown)]
      .map(clean)
      .join('\n'),
  );
}

async function askAboutKeys(member: Member, options: ApiOptions, path: string[]): Promise<boolean> {
  if (!canAsk(options)) return false;
  const { keys } = await callApi<MemberKeysResponse>(options, 'GET', path);
  const revocable = keys.filter(({ kind }) => kind !== 'project');
  if (revocable.length === 0) return false;
  const names = revocable.map(nameOf).join(', ');
  const answer = await askYesNo(
    `${member.email} issued ${countOf(revocable.length)}: ${names}. Also revoke?`,
  );
  if (answer === null) throw failure('not_confirmed', 'Nobody was removed.');
  return answer;
}

/** The keys that stay valid, and the commands that revoke them. */
function aboutKeys(keys: readonly MemberKey[]): string[] {
  const revoked = keys.filter(({ status }) => status === 'revoked');
  const kept = keys.filter(({ kind, status }) => kind !== 'project' && status !== 'revoked');
  const rotated = [...new Set(keys.flatMap(({ kind, project }) => (kind === 'project' ? [project] : [])))];
  return [
    ...(revoked.length > 0 ? [`Revoked ${countOf(revoked.length)}: ${revoked.map(nameOf).join(', ')}.`] : []),
    ...(kept.length > 0 ? ['These keys still work:', ...kept.map((key) => `  ${revokeOf(key)}`)] : []),
    ...(rotated.length > 0
      ? [
          'They know these project keys. To replace them:',
          ...rotated.map((slug) => `  rowhouse keys rotate ${slug} --grace 0s`),
        ]
      : []),
  ];
}

/** A service of an earlier version does not count them. */
function aboutUnknown(count: number | undefined): string[] {
  if (!count) return [];
  return [
    `${countOf(count)} without a known issuer, for example of the first start, still ${count === 1 ? 'works' : 'work'}, and they may know ${count === 1 ? 'it' : 'them'}. To look for such keys:`,
    '  rowhouse account keys',
    '  rowhouse keys list <project>',
  ];
}

function revokeOf(key: MemberKey): string {
  const command =
    key.project === null ? `account revoke-key ${key.id}` : `keys revoke ${key.project} ${key.id}`;
  return `${nameOf(key)}: rowhouse ${command}`;
}

function nameOf({ name, project }: MemberKey): string {
  return project === null ? name : `${name} (${project})`;
}

function countOf(count: number): string {
  return count === 1 ? '1 key' : `${count} keys`;
}

async function find(email: string, options: ApiOptions) {
  const { members, invitations } = await callApi<MembersResponse>(options, 'GET', ['account', 'members']);
  const isIt = (one: { email: string }) => one.email.toLowerCase() === email.toLowerCase();
  return { member: members.find(isIt), invitation: invitations.find(isIt) };
}

function missing(email: string) {
  return failure(
    'member_not_found',
    `The account has no member or invitation "${email}".`,
    'List them: rowhouse members list.',
  );
}
