// Who may do what: one table of roles and actions. Every route of the API names its action, and http/request/authorize.ts looks
// it up here.
import type { Role } from '@rowhouse/api';

/** `operator`: holds an operator key. The others are roles in an account. */
export type Actor = Role | 'operator';

const everyone: readonly Actor[] = ['viewer', 'developer', 'admin', 'owner'];
const developers: readonly Actor[] = ['developer', 'admin', 'owner'];
const admins: readonly Actor[] = ['admin', 'owner'];

const permissions = {
  /** The account itself: its name, its limits, its members. */
  'account.read': everyone,
  /** The name of the account, its keys, and what it requires of its members. */
  'account.manage': admins,
  'members.manage': admins,
  'audit.read': [...admins, 'operator'],
  /** Projects, their data and how they are used. Statements of a viewer cannot write. */
  'projects.read': everyone,
  'jobs.read': [...developers, 'operator'],
  'jobs.cancel': [...developers, 'operator'],
  /** Data, tables and end users. */
  'projects.write': developers,
  /** Projects as a whole: creation, limits, keys, branches, restores, deletion. */
  'projects.manage': developers,
  /** Servers, backups and their jobs. */
  'service.operate': ['operator'],
  'accounts.manage': ['operator'],
} as const satisfies Record<string, readonly Actor[]>;

export type Action = keyof typeof permissions;

export function isAllowed(actor: Actor, action: Action): boolean {
  return (permissions[action] as readonly Actor[]).includes(actor);
}

const ranks: readonly Role[] = ['viewer', 'developer', 'admin', 'owner'];

/** Each role may do all that those before it may. */
export function rankOf(role: Role): number {
  return ranks.indexOf(role);
}

/** Who of the operator's own account may do what an operator may. */
export function isOperatorRole(role: Role): boolean {
  return rankOf(role) >= rankOf('admin');
}
