// What a session may do, so that no screen offers what the service would refuse. The service itself decides.
import type { ConsoleSession } from '@rowhouse/api';

type Rights = Pick<ConsoleSession, 'role' | 'is_operator' | 'scope'>;

/** Servers, backups, and on which server a project is. */
export const mayOperate = ({ is_operator }: Rights): boolean => is_operator;

/** Data, tables, end users, keys, settings and jobs. A session with the key of a project has no role, but scopes. */
export const mayWrite = ({ role }: Rights): boolean => role !== 'viewer';

/** Projects as a whole: creation, branches, restores, deletion. */
export const mayManageProjects = (rights: Rights): boolean => rights.scope === 'account' && mayWrite(rights);
