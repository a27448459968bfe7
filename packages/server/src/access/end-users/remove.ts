// Deletes a user as the project's role, not as the owner of auth.users: cascades and triggers on the project's tables
// run the project's code, which must not get more privileges than the project has.
import type { User } from '@rowhouse/api';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { wasRaised } from '../../query/exchange/failures.ts';
import { lookUp } from '../../query/look-up.ts';
import type { AuthContext } from './auth-context.ts';
import type { UserDeps } from './deps.ts';
import { projectLogin } from './store.ts';

export async function removeUser({ query }: UserDeps, context: AuthContext, user: User): Promise<User> {
  const answer = await lookUp(query, projectLogin(context), deleting, [user.id], {
    timeoutMs,
    isPlain: false,
    changes: true,
  }).catch((error) => {
    throw explain(error);
  });
  if (answer === null) throw errors.userNotFound();
  return user;
}

const timeoutMs = 25_000;
const deleting =
  'delete from auth.users where id operator(pg_catalog.=) $1::pg_catalog.uuid returning id::pg_catalog.text';

function explain(error: unknown): unknown {
  if (!(error instanceof RowhouseError)) return errors.outcomeUnknown(error);
  if (error.sql?.state !== foreignKeyViolation || wasRaised(error)) return error;
  return errors.conflict(
    `Rows of "${error.sql.table ?? 'a table'}" still reference this user, so it was not deleted.`,
    'Delete those rows first, or declare the foreign key with "on delete cascade".',
  );
}

const foreignKeyViolation = '23503';
