// What a session may do, so that no screen offers what the service would refuse. The service itself decides.
import type { ConsoleSession, Role } from '@rowhouse/api';

type Rights = Pick<ConsoleSession, 'role' | 'is_operator' | 'scope' | 'sees_all_projects'>;

/** Servers, backups, accounts, and on which server a project is. */
export const mayOperate = ({ is_operator }: Rights): boolean => is_operator;

/** Data, tables, end users, keys, settings and jobs. A session with the key of a project has no role, but scopes. */
export const mayWrite = ({ role }: Rights): boolean => role !== 'viewer';

/** Projects as a whole: restores, deletion. */
export const mayManageProjects = (rights: Rights): boolean => rights.scope === 'account' && mayWrite(rights);

/** New projects, imports and branches. A member who sees only some projects would not see a new one. */
export const mayCreateProjects = (rights: Rights): boolean =>
  mayManageProjects(rights) && rights.sees_all_projects;

/** Members, invitations and keys of the account, and its audit log. */
export const mayManageAccount = ({ role }: Rights): boolean => role === 'admin' || role === 'owner';

/** Each may do all that those before it may. */
export const roles: readonly Role[] = ['viewer', 'developer', 'admin', 'owner'];

/** The roles that the session may give and take: nobody handles one that is above the own. */
export const rolesBelow = ({ role: own }: Pick<Rights, 'role'>): Role[] =>
  own === null ? [] : roles.slice(0, roles.indexOf(own) + 1);

/** false: only the own profile and other accounts can be used. */
export const isUsable = (session: Pick<ConsoleSession, 'lacks_second_factor' | 'suspended_because'>) =>
  !session.lacks_second_factor && session.suspended_because === null;
