// Refuses tables to end users and anonymous callers, with hints that name the statement that would allow the request:
// row security, grants, policies.

import { errors, type RowhouseError } from '../errors/errors.ts';
import { note, routineOf } from '../query/exchange/failures.ts';
import { anonymousRole, type UserRole } from '../servers/template/shared-roles.ts';
import type { Table } from './catalog/catalog.ts';
import { id, nameOf } from './sql/expressions.ts';
import { reword } from './write/errors.ts';
import type { Verb } from './write/statement.ts';

export type Action = 'select' | Verb;

/** Anyone can get a publishable key and sign up, so such a key reaches only tables that row security guards. */
export function requireRowSecurity(tables: readonly Table[], action: Action, role: UserRole): void {
  const open = tables.find(({ exposed }) => exposed !== null);
  if (!open?.exposed) return;
  throw refusal(`${nameExposed(open, open.exposed)}.`, remedyOf(open, open.exposed, action, role));
}

/** Checked before the request: its errors would reveal columns of a table that the user may not use. */
export function requireGrants(tables: readonly Table[], action: Action, role: UserRole): void {
  const closed = tables.find(({ grants }) => !grants.usage || !grants[action]);
  if (!closed) return;
  const { schema, grants } = closed;
  const statements = [
    ...(grants.usage ? [] : [`grant usage on schema ${id(schema)} to ${role};`]),
    ...(grants[action] ? [] : [grantOf(closed, action, role)]),
  ];
  const isAnonymous = role === anonymousRole;
  if (isAnonymous && closed.kind !== 'view') statements.push(publicPolicy(closed, action));
  const who = isAnonymous ? "Without a user's access token, a publishable key" : 'Users of this project';
  const whom = isAnonymous
    ? `To allow everyone: ${statements.join(' ')} ${orAsUser}`
    : `To allow them: ${statements.join(' ')}`;
  throw refusal(`${who} cannot ${doing[action]} "${closed.name}".`, isOurs(closed) ? ours : whom);
}

const orAsUser = 'To act as a user, send "Authorization: Bearer <ACCESS_TOKEN>" beside the key.';

function grantOf(table: { schema: string; name: string }, action: Action, role: UserRole): string {
  return `grant ${action} on table ${nameOf(table)} to ${role};`;
}

/** A policy for reading can be complete; the conditions for writing are the project's decision. */
function publicPolicy(table: { schema: string; name: string }, action: Action): string {
  const conditions = {
    select: 'using (true)',
    insert: 'with check (…)',
    update: 'using (…) with check (…)',
    delete: 'using (…)',
  };
  return `create policy "${action} by anybody" on ${nameOf(table)} for ${action} to ${anonymousRole} ${conditions[action]};`;
}

const doing: Record<Action, string> = {
  select: 'read',
  insert: 'insert into',
  update: 'update rows of',
  delete: 'delete from',
};

/** Adds a hint to a refusal by PostgreSQL itself. Code, status and message stay. */
export function explainRefusal(
  error: RowhouseError,
  table: Table,
  action: Action,
  role: UserRole,
): RowhouseError {
  const hint = hintOf(error, table, action, role);
  return hint === null ? error : reword(error, { hint });
}

/** Recognized by the routine inside PostgreSQL: the project's own code can raise any state with any message. */
function hintOf(error: RowhouseError, table: Table, action: Action, role: UserRole): string | null {
  switch (routineOf(error)) {
    case 'ExecWithCheckOptions':
      return (
        `The row passes no policy, or fails a restrictive one. To allow it: create policy … on ${nameOf(table)} for ${action} to ${role} with check (…);` +
        ' A row that is returned must also pass a policy for select: create one, or send returning=minimal.'
      );
    case 'aclcheck_error':
    case 'aclcheck_error_col':
      return `${minimalFirst(table, action, role)}The request, or a policy or function that it runs, uses an object for which "${role}" has no grant. Grant the privilege, or read the object in a function with "security definer".`;
    case 'fireRIRrules':
      return 'A policy reads its own table, which is a recursion. Read the table in a function with "security definer" instead.';
    default:
      return null;
  }
}

/** Marked as never run: it is based on cached tables, which may have changed since, so the request can be repeated. */
function refusal(message: string, hint: string): RowhouseError {
  const error = errors.forbidden(message, hint);
  note(error, { neverRan: true, context: undefined, routine: undefined });
  return error;
}

type Exposed = NonNullable<Table['exposed']>;

function nameExposed(table: Table, exposed: Exposed): string {
  const isItself = exposed.name === table.name && exposed.schema === table.schema;
  const what = isItself ? `"${table.name}"` : `"${table.name}" reads "${exposed.name}", which`;
  return `A publishable key can use only tables that row security protects, and ${what} ${lacks[exposed.kind]}`;
}

const lacks: Record<Table['kind'], string> = {
  table: 'does not have it enabled',
  partitioned: 'does not have it enabled',
  view: 'is a view that reads with the privileges of its owner',
  materialized_view: 'is a materialized view, which does not support it',
  foreign: 'is a foreign table, which does not support it',
};

const ours =
  'The service manages the schema "auth". A user reads its own data with GET …/auth/user. To share data about users, store it in a table of the project.';

function remedyOf(table: Table, exposed: Exposed, action: Action, role: UserRole): string {
  if (isOurs(exposed)) return ours;
  switch (exposed.kind) {
    case 'table':
    case 'partitioned': {
      const name = nameOf(exposed);
      if (role === anonymousRole) {
        const opening = `${grantOf(exposed, action, role)} ${publicPolicy(exposed, action)}`;
        return `To allow everyone: alter table ${name} enable row level security; ${opening} ${orAsUser}`;
      }
      const owner = exposed.name === table.name ? ownerColumn(table) : null;
      const condition = owner === null ? '…' : `(select auth.uid()) = ${id(owner)}`;
      return `Run: alter table ${name} enable row level security; create policy "own rows" on ${name} to ${role} using (${condition});`;
    }
    case 'view':
      return `Run: alter view ${nameOf(exposed)} set (security_invoker = true);`;
    default:
      return 'Store the data for users in a table with row security.';
  }
}

/** The column that names the user to whom a row belongs, if there is one. */
function ownerColumn({ columns, references }: Table): string | null {
  const key = references.find(
    ({ isOwn, target, columns: own }) => isOwn && isOurs(target) && own.length === 1,
  );
  return key?.columns[0] ?? (columns.get('user_id')?.type === 'uuid' ? 'user_id' : null);
}

function isOurs({ schema }: { schema: string }): boolean {
  return schema === 'auth';
}

/** By default the inserted row is returned, and reading it takes a grant too. */
function minimalFirst(table: Table, action: Action, role: UserRole): string {
  if (action !== 'insert' || table.grants.select) return '';
  return `Send returning=minimal: "${role}" cannot read "${table.name}", so that the inserted rows cannot be returned. If the request has it already: `;
}
