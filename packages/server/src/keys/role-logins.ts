// Callers by the role and the password of a project's direct connection. The password follows from the master key and the
// project's version of it, so that nothing but the version is looked up, and that is kept in memory as callers are.
import { timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Change } from '../control/changes.ts';
import type { Control } from '../control/control.ts';
import { roleOf } from '../engine/provision.ts';
import { derivePassword } from '../engine/role-passwords.ts';
import { errors } from '../errors.ts';
import { sql } from '../postgres/sql.ts';
import type { ProjectCaller } from './caller.ts';
import { hashKey } from './form.ts';

export type RoleLogins = {
  /** Throws unless the password is the role's own now. */
  verify(role: string, password: string): Promise<ProjectCaller>;
  forget(change: Change): void;
};

type Options = {
  control: Control;
  masterKey: Buffer;
  /** May what is kept in memory be used now? */
  isFresh: () => boolean;
};

const rememberedRoles = 20_000;
const roleForm = /^p_([a-z0-9]{1,40})$/;

export function keepRoleLogins({ control, masterKey, isFresh }: Options): RoleLogins {
  const remembered = new LRUCache<string, ProjectCaller>({ max: rememberedRoles });
  const looking = new Map<string, Promise<ProjectCaller | null>>();
  let changes = 0;

  const look = async (projectId: string): Promise<ProjectCaller | null> => {
    const changesBefore = changes;
    const caller = await findCaller(control, projectId);
    // A change that came in while we looked may be about this very project: then the answer is not kept.
    if (caller && changes === changesBefore) remembered.set(projectId, caller);
    return caller;
  };

  const find = async (projectId: string): Promise<ProjectCaller | null> => {
    const known = isFresh() ? remembered.get(projectId) : undefined;
    if (known) return known;
    // Many requests at once look once.
    const pending = looking.get(projectId);
    if (pending) return pending;
    const search = look(projectId).finally(() => {
      if (looking.get(projectId) === search) looking.delete(projectId);
    });
    looking.set(projectId, search);
    return search;
  };

  return {
    verify: async (role, password) => {
      const id = roleForm.exec(role)?.[1];
      const caller = id === undefined ? null : await find(id);
      // Derived for a role that does not exist, too: the time tells nothing.
      const right = derivePassword(masterKey, role, caller?.passwordVersion);
      const fits = timingSafeEqual(hashKey(password), hashKey(right));
      if (!caller || !fits) throw errors.wrongPassword(role);
      return caller;
    },
    forget: ({ projectId }) => {
      changes++;
      // Who asks from now on must not hear what was found before.
      looking.clear();
      if (projectId !== null) remembered.delete(projectId);
    },
  };
}

/** Whoever has the password can run every statement, and nothing else of the API. */
async function findCaller(control: Control, projectId: string): Promise<ProjectCaller | null> {
  const [row] = await control.query<Pick<ProjectCaller, 'accountId' | 'passwordVersion' | 'slug'>>(sql`
    select account_id as "accountId", password_version as "passwordVersion", slug
    from projects where id = ${projectId} and deleted_at is null`);
  if (!row) return null;
  return {
    ...row,
    kind: 'scoped',
    keyId: roleOf(projectId),
    projectId,
    isRotated: false,
    scopes: ['query'],
    tables: null,
    expiresAt: null,
  };
}
