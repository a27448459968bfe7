// The end user that a request acts for, taken from the access token that comes with its API key. Without a token, a
// publishable key acts anonymously.
import { actingUserBy } from '../../access/end-users/act-as.ts';
import { isActingToken } from '../../access/end-users/acting-tokens.ts';
import type { Caller } from '../../keys/caller.ts';
import { lookUp } from '../../query/look-up.ts';
import { type ActingUser, asAnonymous, asUser, type ProjectLogin } from '../../servers/databases/login.ts';
import type { Deps } from '../deps.ts';

/** The login of the user whose token this is; null: as `anon`. It waits only for what is not cached. */
export function actingLogin(
  deps: Deps,
  caller: Caller,
  slug: string,
  token: string | null,
): ProjectLogin | Promise<ProjectLogin> {
  const project = deps.logins.recall(caller, slug);
  if (!project) return deps.logins.of(caller, slug).then((found) => actIn(deps, caller, found, slug, token));
  return actIn(deps, caller, project, slug, token);
}

/**
 * Throws unless the token was issued for this project and has not expired. PostgreSQL checks whether its session still exists.
 */
function actIn(
  deps: Deps,
  caller: Caller,
  project: ProjectLogin,
  slug: string,
  token: string | null,
): ProjectLogin | Promise<ProjectLogin> {
  if (token === null) return asAnonymous(project);
  const { tokens } = deps.users;
  const as = (user: ActingUser) => asUser(project, user);
  if (isActingToken(token)) return actingUserBy(deps.users, { id: project.id, slug }, caller, token).then(as);
  const owner = { projectId: project.id, slug };
  const known = tokens.recall(owner, token);
  return known ? as(known.user) : tokens.verify(owner, token).then(({ user }) => as(user));
}

/** A publishable key without an access token never acts as the project itself, on any code path. */
export function actingAs(caller: Caller, project: ProjectLogin): ProjectLogin {
  return caller.kind === 'publishable' && !project.actingUser ? asAnonymous(project) : project;
}

/** A token can outlive its session. Every statement checks that, but a stored response is replayed without a statement. */
export async function checkSession({ query }: Deps, login: ProjectLogin | null): Promise<void> {
  if (login?.actingUser?.role === 'authenticated') await lookUp(query, login, 'select 1', []);
}
