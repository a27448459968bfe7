// A project is logged in to by several roles, and each has sessions, pipelines and groups of its own.
import type { ProjectLogin } from '../../servers/databases/login.ts';

const logins: readonly ProjectLogin['loginAs'][] = [undefined, 'auth', 'user', 'anon'];

export function loginKeyOf({ id, loginAs }: Pick<ProjectLogin, 'id' | 'loginAs'>): string {
  return loginAs === undefined ? id : `${id} ${loginAs}`;
}

/** The keys of all logins of a project. */
export function loginKeysOf(id: string): string[] {
  return logins.map((loginAs) => loginKeyOf({ id, ...(loginAs && { loginAs }) }));
}
