// How a session logs in to a project's database: as which role, for whom, on which host.

import type { Address } from '../../postgres/admin/database.ts';
import type { WalPosition } from '../../postgres/admin/wal-position.ts';
import type { Host } from '../../postgres/wire/server-address.ts';
import { derivePassword } from '../role-passwords.ts';
import type { Server } from '../server.ts';
import { anonymousRole, type UserRole, userRole } from '../template/shared-roles.ts';
import { anonymousRoleOf, authRoleOf, databaseOf, roleOf, userRoleOf } from './names.ts';

/** Everything needed to log in to a project's database. */
export type ProjectLogin = Readonly<{
  id: string;
  /** The server on which the database lives. */
  serverId: number;
  passwordVersion: number;
  /** The account whose share of the sessions this uses. Null: the service itself. */
  accountId: string | null;
  /** Who of those that use the project: a key, or a user. Absent: the account. */
  caller?: string | undefined;
  /** Absent: the project's own role. */
  loginAs?: 'auth' | UserLogin;
  /** The acting user, for the logins `user` and `anon`. Without one such a session can do nothing. */
  actingUser?: ActingUser;
  /** The caller allows a read to be answered by a standby. */
  staleness?: Staleness;
  /** The standby to log in to, instead of the primary. */
  standby?: Host;
}>;

/** The standby's data is at most `maxMs` old. `min`: it has everything that was committed before. */
export type Staleness = Readonly<{ maxMs: number; min: WalPosition | null }>;

export type UserLogin = 'user' | 'anon';
/** A signed-in end user (`claims`: the claims of the access token, as JSON), or anonymous. */
export type ActingUser = SignedInUser | Readonly<{ role: 'anon' }>;
export type SignedInUser = Readonly<{
  role: 'authenticated';
  sessionId: string;
  userId: string;
  claims: string;
  /** As the claims have them: PostgreSQL compares them with what they are now. */
  email: string;
  claimedRole: string;
}>;

export function asUser(
  { id, serverId, passwordVersion, accountId, caller: key }: ProjectLogin,
  actingUser: ActingUser,
): ProjectLogin {
  return actingUser.role === 'anon'
    ? { id, serverId, passwordVersion, accountId, caller: key, loginAs: 'anon', actingUser }
    : { id, serverId, passwordVersion, accountId, caller: actingUser.userId, loginAs: 'user', actingUser };
}

const anonymous: ActingUser = { role: 'anon' };

export function asAnonymous(project: ProjectLogin): ProjectLogin {
  return asUser(project, anonymous);
}

/** What the login becomes. */
export function roleBehind(loginAs: UserLogin): UserRole {
  return loginAs === 'anon' ? anonymousRole : userRole;
}

/** Whether the login's only privilege is to become the acting user for a transaction. */
export function isUserLogin(loginAs: ProjectLogin['loginAs']): loginAs is UserLogin {
  return loginAs === 'user' || loginAs === 'anon';
}

export function loginOf(
  server: Server,
  { id, passwordVersion, loginAs, standby }: Omit<ProjectLogin, 'serverId' | 'accountId'>,
): Address {
  const { primary, ...rest } = server.address;
  const user = loginRoleOf(id, loginAs);
  const password = derivePassword(server.masterKey, user, loginAs ? 1 : passwordVersion);
  const address = standby || !primary ? { ...rest, ...standby } : server.address;
  return { ...address, user, password, database: databaseOf(id) };
}

export function loginRoleOf(id: string, loginAs: ProjectLogin['loginAs']): string {
  switch (loginAs) {
    case 'auth':
      return authRoleOf(id);
    case 'user':
      return userRoleOf(id);
    case 'anon':
      return anonymousRoleOf(id);
    default:
      return roleOf(id);
  }
}
