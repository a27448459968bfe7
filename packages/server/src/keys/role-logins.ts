// Authenticates callers by the role and password of a project's direct connection. The password is derived from the
// master key and the project's password version, so only the version is looked up, and it is cached like callers are.
import { timingSafeEqual } from 'node:crypto';
import type { Change } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { sql } from '../postgres/sql.ts';
import { roleOf } from '../servers/databases/names.ts';
import { derivePassword } from '../servers/role-passwords.ts';
import type { ProjectCaller } from './caller.ts';
import { hashKey } from './form.ts';
import { openProjectCache } from './project-cache.ts';

export type RoleLogins = {
  /** Throws unless this is the role's current password. */
  verify(role: string, password: string): Promise<ProjectCaller>;
  forget(change: Change): void;
  forgetAll(): void;
};

type Options = {
  control: Control;
  masterKey: Buffer;
  /** Whether cached values may be used now. */
  isFresh: () => boolean;
};

const maxCachedRoles = 20_000;
const roleForm = /^p_([a-z0-9]{1,40})$/;

export function openRoleLogins({ control, masterKey, isFresh }: Options): RoleLogins {
  const callers = openProjectCache({ max: maxCachedRoles, isFresh }, (id) => findCaller(control, id));
  return {
    verify: async (role, password) => {
      const id = roleForm.exec(role)?.[1];
      const caller = id === undefined ? null : await callers.of(id);
      // Also derived for an unknown role, so that timing does not reveal which roles exist.
      const right = derivePassword(masterKey, role, caller?.passwordVersion);
      const fits = timingSafeEqual(hashKey(password), hashKey(right));
      if (!caller || !fits) throw errors.wrongPassword(role);
      return caller;
    },
    forget: (change) =>
      callers.forget(change, ({ accountId }) => change.accountId !== null && accountId === change.accountId),
    forgetAll: callers.forgetAll,
  };
}

/** The password allows every statement, and nothing else of the API. */
async function findCaller(control: Control, projectId: string): Promise<ProjectCaller | null> {
  const [row] = await control.query<
    Pick<ProjectCaller, 'accountId' | 'serverId' | 'passwordVersion' | 'slug' | 'maxPerSecond'> & {
      suspendedBecause: string | null;
    }
  >(sql`
    select projects.account_id as "accountId", server_id as "serverId", password_version as "passwordVersion", slug,
           accounts.suspended_because as "suspendedBecause", accounts.max_requests_per_second as "maxPerSecond"
    from projects join accounts on accounts.id = projects.account_id
    where projects.id = ${projectId} and projects.deleted_at is null and filled_by is null
      and accounts.deleted_at is null`);
  if (!row) return null;
  const { suspendedBecause, ...found } = row;
  if (suspendedBecause !== null) throw errors.accountSuspended(suspendedBecause);
  return {
    ...found,
    kind: 'scoped',
    keyId: roleOf(projectId),
    projectId,
    isRotated: false,
    scopes: ['query'],
    tables: null,
    expiresAt: null,
  };
}
