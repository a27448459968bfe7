// Who an API key belongs to and what it may do.
import type { Scope } from '@rowhouse/api';
import { errors } from '../errors.ts';

export type AccountCaller = Readonly<{ kind: 'account'; keyId: string; accountId: string; expiresAt: null }>;
export type ProjectCaller = Readonly<{
  kind: 'project' | 'scoped' | 'publishable';
  keyId: string;
  accountId: string;
  projectId: string;
  passwordVersion: number;
  /** Replaced, and good only until its grace period ends. */
  isRotated: boolean;
  slug: string;
  scopes: readonly Scope[];
  tables: readonly string[] | null;
  expiresAt: number | null;
}>;
export type Caller = AccountCaller | ProjectCaller;

export function requireAccount(caller: Caller, action: string): AccountCaller {
  if (caller.kind !== 'account') {
    throw errors.forbidden(`A project's key may not ${action}.`, 'Use an account key (rh_acct_…).');
  }
  return caller;
}

/** An account key has every scope in its own projects, and so has a project's own key. */
export function requireScope(caller: Caller, scope: Scope): void {
  if (caller.kind === 'account' || caller.kind === 'project') return;
  if (!caller.scopes.includes(scope)) throw errors.scopeMissing(scope);
}

/** May it do everything inside the project? */
export function mayManage(caller: Caller): boolean {
  return caller.kind === 'account' || caller.kind === 'project' || caller.scopes.includes('manage');
}

/** For what would hand out the whole project: its own key, its database password. */
export function requireWhole(caller: Caller, action: string): void {
  if (caller.kind === 'account') return;
  if (caller.kind === 'project' && !caller.isRotated) return;
  // A key is rotated because somebody else may have it: it must not be a way to the next one.
  if (caller.kind === 'project') {
    throw errors.forbidden(
      `A rotated key may not ${action}.`,
      "Use the project's present key or an account key.",
    );
  }
  throw errors.forbidden(`A scoped key may not ${action}.`, "Use the project's own key or an account key.");
}
