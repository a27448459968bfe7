// Callers by the role and the password of a project's direct connection. The password follows from the master key and the
// project's version of it, so that nothing but the version is looked up, and that is kept in memory as callers are.
import { timingSafeEqual } from 'node:crypto';
import type { Change } from '../control/changes.ts';
import type { Control } from '../control/control.ts';
import { roleOf } from '../engine/provision.ts';
import { derivePassword } from '../engine/role-passwords.ts';
import { errors } from '../errors.ts';
import { sql } from '../postgres/sql.ts';
import type { ProjectCaller } from './caller.ts';
import { hashKey } from './form.ts';
import { openProjectCache } from './project-cache.ts';

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
  const callers = openProjectCache({ max: rememberedRoles, isFresh }, (id) => findCaller(control, id));
  return {
    verify: async (role, password) => {
      const id = roleForm.exec(role)?.[1];
      const caller = id === undefined ? null : await callers.of(id);
      // Derived for a role that does not exist, too: the time tells nothing.
      const right = derivePassword(masterKey, role, caller?.passwordVersion);
      const fits = timingSafeEqual(hashKey(password), hashKey(right));
      if (!caller || !fits) throw errors.wrongPassword(role);
      return caller;
    },
    forget: (change) => callers.forget(change),
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
