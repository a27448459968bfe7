// Refuses tables to end users and anonymous callers, with hints that name the statement that would allow the request:
// row security, grants, policies.
import { anonymousRole, type UserRole } from '../engine/shared-roles.ts';
import { errors, type RowhouseError } from '../errors.ts';
import { note, routineOf } from '../query/exchange/failures.ts';
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
    ? `To let anybody: ${statements.join(' ')} ${orAsUser}`
    : `To let them: ${statements.join(' ')}`;
  throw refusal(`${who} may not ${doing[action]} "${closed.name}".`, isOurs(closed) ? ours : whom);
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
  update: 'change rows of',
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
        `The row passes no policy, or fails a restrictive one. To let it in: create policy … on ${nameOf(table)} for ${action} to ${role} with check (…);` +
        ' A row that is shown must pass a policy for select too: give it one, or send returning=minimal.'
      );
    case 'aclcheck_error':
    case 'aclcheck_error_col':
      return `The request, or a policy or function that it runs, touches what "${role}" has no grant on: grant it, or let a function with "security definer" look there.`;
    case 'fireRIRrules':
      return 'A policy that reads its own table asks itself: let a function with "security definer" look there.';
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
  return `A publishable key reaches only what row security guards, and ${what} ${lacks[exposed.kind]}`;
}

const lacks: Record<Table['kind'], string> = {
  table: 'has none',
  partitioned: 'has none',
  view: 'is a view that reads with the rights of its owner',
  materialized_view: 'is a materialized view, which can have none',
  foreign: 'is a foreign table, which can have none',
};

const ours =
  'What is in schema "auth" is kept by the service. GET …/auth/user tells users what it has of them; what others may know of them belongs into a table of your own.';

function remedyOf(table: Table, exposed: Exposed, action: Action, role: UserRole): string {
  if (isOurs(exposed)) return ours;
  switch (exposed.kind) {
    case 'table':
    case 'partitioned': {
      const name = nameOf(exposed);
      if (role === anonymousRole) {
        const opening = `${grantOf(exposed, action, role)} ${publicPolicy(exposed, action)}`;
        return `To let anybody: alter table ${name} enable row level security; ${opening} ${orAsUser}`;
      }
      const owner = exposed.name === table.name ? ownerColumn(table) : null;
      const condition = owner === null ? '…' : `(select auth.uid()) = ${id(owner)}`;
      return `Run: alter table ${name} enable row level security; create policy "own rows" on ${name} to ${role} using (${condition});`;
    }
    case 'view':
      return `Run: alter view ${nameOf(exposed)} set (security_invoker = true);`;
    default:
      return 'Keep what users may see in a table with row security.';
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
