// The caller: the account or project that an API key belongs to, and the checks of what it may do.
import type { Role, Scope } from '@rowhouse/api';
import { errors } from '../errors/errors.ts';

/** The holder of an account key, or a member of the account who has signed in to the console. */
export type AccountCaller = Readonly<{
  kind: 'account';
  /** The id of the key, or of the person. */
  keyId: string;
  accountId: string;
  role: Role;
  /** Ids of the projects that the caller sees. null: all of the account. */
  projects: readonly string[] | null;
  /** An admin of the operator's own account, who may also do what an operator may. */
  isOperator: boolean;
  person: Readonly<{ id: string; email: string }> | null;
  /** Requests of the account. null: no limit. */
  maxPerSecond: number | null;
  expiresAt: number | null;
}>;
/** The holder of an operator key, which reaches accounts and servers, and no project. */
export type OperatorCaller = Readonly<{ kind: 'operator'; keyId: string; expiresAt: number | null }>;
export type ProjectCaller = Readonly<{
  kind: 'project' | 'scoped' | 'publishable';
  keyId: string;
  accountId: string;
  projectId: string;
  serverId: number;
  passwordVersion: number;
  /** The key was replaced and is valid only until its grace period ends. */
  isRotated: boolean;
  slug: string;
  scopes: readonly Scope[];
  tables: readonly string[] | null;
  maxPerSecond: number | null;
  expiresAt: number | null;
}>;
export type Caller = AccountCaller | ProjectCaller;

/** The table of roles has refused a viewer already where a route writes. This is the second wall, before the data itself. */
const refusedToViewers: readonly Scope[] = ['query', 'tables:write'];

/** Whether the caller sees a project of its account. */
export function seesProject(caller: Caller, projectId: string): boolean {
  if (caller.kind !== 'account') return caller.projectId === projectId;
  return caller.projects === null || caller.projects.includes(projectId);
}

export function requireAccount(caller: Caller, action: string): AccountCaller {
  if (caller.kind !== 'account') {
    throw errors.forbidden(`A project key cannot ${action}.`, 'Use an account key (rh_acct_…).');
  }
  return caller;
}

/** For what makes a project: a member that sees only some projects would not see it. */
export function requireAllProjects(caller: Caller, action: string): AccountCaller {
  const account = requireAccount(caller, action);
  if (account.projects !== null)
    throw errors.forbidden(
      `A member who sees only some projects cannot ${action}.`,
      'Ask an owner or an admin of the account.',
    );
  return account;
}

/** Account keys have every scope in the account's projects; a project's own key has every scope in its project. */
export function requireScope(caller: Caller, scope: Scope): void {
  if (caller.kind === 'project') return;
  if (caller.kind === 'account') {
    if (caller.role === 'viewer' && refusedToViewers.includes(scope)) throw errors.roleForbidden(caller.role);
    return;
  }
  if (caller.scopes.includes(scope)) return;
  throw caller.kind === 'publishable' ? errors.publishableKey(scope) : errors.scopeMissing(scope);
}

/** For what a key can see that runs SQL, or that manages the project: definitions, texts of statements. */
export function requireSql(caller: Caller, action: string): void {
  if (caller.kind === 'account') return;
  if (caller.tables !== null) {
    throw errors.forbidden(`A key with a list of tables cannot ${action}.`, 'Use a key without "tables".');
  }
  if (!mayManage(caller) && !caller.scopes.includes('query')) requireScope(caller, 'query:read');
}

/** Whether the caller may do everything inside the project. */
export function mayManage(caller: Caller): boolean {
  if (caller.kind === 'account') return caller.role !== 'viewer';
  return caller.kind === 'project' || caller.scopes.includes('manage');
}

/** For actions that hand out full access to the project: its own key, its database password. */
export function requireWhole(caller: Caller, action: string): void {
  if (caller.kind === 'account') {
    if (caller.role === 'viewer') throw errors.roleForbidden(caller.role);
    return;
  }
  if (caller.kind === 'project' && !caller.isRotated) return;
  // Keys are rotated because they may have leaked: an old key must not give access to the new one.
  if (caller.kind === 'project') throw rotatedKey(action);
  throw errors.forbidden(`A ${caller.kind} key cannot ${action}.`, 'Use the project key or an account key.');
}

export function rotatedKey(action: string) {
  return errors.forbidden(
    `A rotated key cannot ${action}.`,
    'Use the current project key or an account key.',
  );
}

/** For what hands out everything that the project stores: like requireWhole, but a key with `manage` and all tables suffices. */
export function requireEverything(caller: Caller, action: string): void {
  if (caller.kind === 'publishable') {
    throw errors.forbidden(
      `A publishable key cannot ${action}.`,
      'Use the project key, an account key, or a key with the scope "manage".',
    );
  }
  if (caller.kind !== 'scoped') return requireWhole(caller, action);
  requireScope(caller, 'manage');
  if (caller.tables === null) return;
  throw errors.forbidden(
    `A key with a list of tables cannot ${action}.`,
    'Use the project key, an account key, or a key with the scope "manage" and without "tables".',
  );
}
