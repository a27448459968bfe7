// Manages the keys of a project: list, issue, revoke, rotate.

import { setTimeout as sleep } from 'node:timers/promises';
import type { IssueKey, Key, RotateKey, Scope } from '@rowhouse/api';
import { recordChange, trustedMs } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { seal } from '../control/seal.ts';
import { errors } from '../errors/errors.ts';
import { isState } from '../postgres/admin/database.ts';
import { type Sql, sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { endSessions } from '../servers/databases/connections.ts';
import { resetPassword } from '../servers/databases/roles.ts';
import type { Servers } from '../servers/server.ts';
import { endedKeyDays, maxProjectKeys } from '../settings/limits/keys.ts';
import { type Caller, rotatedKey } from './caller.ts';
import { hashKey, isKeyId, makeKey, newKeyId, startOf } from './form.ts';
import { holdIssuer, issuerColumn } from './issuer.ts';
import { isWithin, listOf } from './listed-tables.ts';

type Deps = { control: Control; masterKey: Buffer; now: () => number };

export async function listKeys(
  { control }: Pick<Deps, 'control'>,
  projectId: string,
  caller: Caller,
): Promise<Key[]> {
  const rows = await control.query<KeyRow>(
    sql`select ${keyColumns} from keys where project_id = ${projectId} order by created_at, id`,
  );
  return rows.filter((row) => isWithin(row.tables, listOf(caller))).map((row) => toKey(row, caller));
}

export async function issueKey(
  { control, now }: Omit<Deps, 'masterKey'>,
  project: { id: string; accountId: string },
  issuer: Caller,
  input: IssueKey,
): Promise<{ key: Key; apiKey: string }> {
  const { kind, scopes, expiresAt } = checkIssue(input, issuer, now());
  await checkKeyCount(control, project.id);
  const apiKey = makeKey(kind === 'publishable' ? 'rh_pub_' : 'rh_proj_');
  const row = await control.transaction(async (transaction) => {
    const issuedBy = await holdIssuer(transaction, issuer);
    const [made] = await transaction.query<KeyRow>(sql`
      insert into keys (id, kind, account_id, project_id, name, start, hash, scopes, tables, expires_at, issued_by)
      values (${newKeyId()}, ${kind}, ${project.accountId}, ${project.id}, ${input.name.trim()}, ${startOf(apiKey)},
              ${hashKey(apiKey)}, ${scopes}, ${input.tables ?? null}, ${expiresAt}, ${issuedBy})
      returning ${keyColumns}`);
    return one(made);
  });
  return { key: toKey(row, issuer), apiKey };
}

/** Idempotent: a key that was already revoked is returned unchanged. */
export async function revokeKey(
  { control }: Pick<Deps, 'control'>,
  projectId: string,
  id: string,
  caller: Caller,
): Promise<Key> {
  if (!isKeyId(id)) throw errors.keyNotFound(id);
  const [found] = await control.query<KeyRow>(
    sql`select ${keyColumns} from keys where project_id = ${projectId} and id = ${id}`,
  );
  // A key with a list of tables must not learn the names of others from the list of another key.
  if (!found || !isWithin(found.tables, listOf(caller))) throw errors.keyNotFound(id);
  if (found.kind === 'project' && found.rotated_at === null) {
    throw errors.conflict(
      'The project key cannot be revoked: it signs the tokens of users.',
      'Replace it with POST …/keys/rotate; {"grace_seconds": 0} ends the old one at once.',
    );
  }
  if (found.revoked_at) return toKey(found, caller);
  const [row] = await control.change<KeyRow>(sql`
    with change as (${recordChange({ keyId: id })})
    update keys set revoked_at = now()
    where project_id = ${projectId} and id = ${id} and revoked_at is null
    returning ${keyColumns}`);
  return toKey(row ?? found, caller);
}

/** Issues a new project key. The old one keeps working, and keeps verifying tokens, until the grace period ends. */
export async function rotateKey(
  { control, servers, masterKey, now }: Deps & { servers: Servers },
  projectId: string,
  caller: Caller,
  { grace_seconds: graceSeconds = 86_400 }: RotateKey,
): Promise<{ key: Key; apiKey: string; previous: Key }> {
  const graceUntil = new Date(now() + graceSeconds * 1000);
  try {
    const rotated = await control.transaction(async (transaction) => {
      const issuedBy = await holdIssuer(transaction, caller);
      const { insert, apiKey } = newProjectKey(
        masterKey,
        sql`${issuedBy}::text, account_id, id from projects where id = ${projectId}`,
      );
      // The row lock serializes concurrent rotations; the second one replaces the key of the first.
      const [previous] = await transaction.query<KeyRow>(sql`
        with current as (
          select id from keys
          where project_id = ${projectId} and kind = 'project' and rotated_at is null and revoked_at is null
          for update
        )
        update keys set rotated_at = now(), expires_at = ${graceUntil}
        from current where keys.id = current.id
        returning ${keyColumns}`);
      // The caller may come from a cache that is slightly behind: its key must be the one that is replaced.
      if (caller.kind === 'project' && caller.keyId !== previous?.id)
        throw rotatedKey('rotate the project key');
      if (!previous) throw rotatedMeanwhile();
      // Also for the project: other processes cache its signing keys.
      await transaction.query(recordChange({ projectId, keyId: previous.id }));
      const [row] = await transaction.query<KeyRow>(sql`${insert} returning ${keyColumns}`);
      return { key: toKey(one(row), caller), apiKey, previous: toKey(previous, caller) };
    });
    // A holder of the old key may have fetched the database password with it.
    if (graceSeconds === 0) await changePassword(control, servers, projectId);
    return rotated;
  } catch (error) {
    if (isState(error, sqlstate.uniqueViolation)) throw rotatedMeanwhile();
    throw error;
  }
}

/** Sets a new database password and ends the sessions that were opened with the old one. */
async function changePassword(control: Control, servers: Servers, projectId: string): Promise<void> {
  await control.change(sql`
    with change as (${recordChange({ projectId })})
    update projects set password_version = password_version + 1 where id = ${projectId}`);
  // Read after the change, each time: a move that switches before it sets the new password there itself.
  const endOldPassword = async () => {
    const [row] = await control.query<{ serverId: number }>(
      sql`select server_id as "serverId" from projects where id = ${projectId}`,
    );
    if (!row) return;
    const server = servers.of(row.serverId);
    await resetPassword(server, projectId);
    await endSessions(server, projectId);
  };
  await endOldPassword();
  // Another process may have been setting the old password again just now. After this delay it knows the new version.
  await sleep(trustedMs);
  await endOldPassword();
}

/** `owner`: a select list and source that yield the ids of issuer, account and project. Also used for new projects. */
export function newProjectKey(masterKey: Buffer, owner: Sql): { insert: Sql; apiKey: string } {
  const id = newKeyId();
  const apiKey = makeKey('rh_proj_');
  const insert = sql`
    insert into keys (id, kind, name, start, hash, sealed, scopes, issued_by, account_id, project_id)
    select ${id}, 'project', 'project key', ${startOf(apiKey)}, ${hashKey(apiKey)}::bytea,
           ${seal(masterKey, apiKey, id)}::bytea, '{}'::text[], ${owner}`;
  return { insert, apiKey };
}

type KeyRow = {
  id: string;
  name: string;
  kind: Key['kind'];
  start: string;
  scopes: Scope[];
  tables: string[] | null;
  status: Key['status'];
  expires_at: Date | null;
  last_used_at: Date | null;
  created_at: Date;
  rotated_at: Date | null;
  revoked_at: Date | null;
  issuedBy: Key['issued_by'];
};

const keyColumns = sql`
  keys.id, keys.name, keys.kind, keys.start, keys.scopes, keys.tables, keys.expires_at, keys.last_used_at,
  keys.created_at, keys.rotated_at, keys.revoked_at, ${issuerColumn},
  case when keys.revoked_at is not null then 'revoked'
       when keys.expires_at <= now() then 'expired'
       when keys.rotated_at is not null then 'rotated'
       else 'active' end as status`;

const everyScope: Scope[] = ['query', 'tables:read', 'tables:write', 'auth', 'manage'];

/** A key of the project may be in a program of strangers: it does not show the addresses of people. */
function toKey(row: KeyRow, caller: Caller): Key {
  return {
    id: row.id,
    name: row.name,
    kind: row.kind,
    start: row.start,
    scopes: row.kind === 'project' ? everyScope : row.scopes,
    tables: row.tables,
    status: row.status,
    expires_at: row.expires_at?.toISOString() ?? null,
    last_used_at: row.last_used_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    revoked_at: row.revoked_at?.toISOString() ?? null,
    issued_by: caller.kind === 'account' ? row.issuedBy : null,
  };
}

function checkIssue(input: IssueKey, issuer: Caller, now: number) {
  const kind = input.kind ?? 'scoped';
  const problems = [];
  if (kind === 'scoped' && !input.scopes) {
    problems.push({ path: 'scopes', problem: 'is required for a scoped key: name at least one scope' });
  }
  if (kind === 'publishable' && input.scopes?.some((scope) => scope !== 'auth')) {
    problems.push({ path: 'scopes', problem: 'must be auth alone for a publishable key' });
  }
  // A key with the scope `manage` must not be able to issue a more powerful one.
  const scopes: Scope[] = kind === 'publishable' ? ['auth'] : (input.scopes ?? []);
  const beyond = issuer.kind === 'scoped' ? scopes.filter((scope) => !issuer.scopes.includes(scope)) : [];
  if (beyond.length > 0) {
    throw errors.forbidden(
      `A key cannot issue scopes that it lacks: ${beyond.join(', ')}.`,
      'Use the project key.',
    );
  }
  if (issuer.kind === 'scoped' && issuer.tables && !isWithin(input.tables ?? null, issuer.tables)) {
    throw errors.forbidden(
      `This key is limited to the tables ${issuer.tables.join(', ')}.`,
      'Limit the new key to some of these tables, or use the project key.',
    );
  }
  const expiresAt = input.expires_at === undefined ? null : new Date(input.expires_at);
  if (expiresAt && !(expiresAt.getTime() > now)) {
    problems.push({ path: 'expires_at', problem: 'must be a time in the future' });
  }
  if (
    issuer.kind === 'scoped' &&
    issuer.expiresAt !== null &&
    !(expiresAt && expiresAt.getTime() <= issuer.expiresAt)
  ) {
    const end = new Date(issuer.expiresAt).toISOString();
    problems.push({
      path: 'expires_at',
      problem: `must not be later than the expiry of the key that issues it (${end})`,
    });
  }
  if (input.tables && !scopes.some((scope) => scope.startsWith('tables:') || scope === 'auth')) {
    problems.push({
      path: 'tables',
      problem: 'requires the scope tables:read or tables:write',
    });
  }
  if (input.tables && scopes.some((scope) => scope.startsWith('query'))) {
    problems.push({
      path: 'tables',
      problem: 'cannot be combined with the scope query or query:read, because SQL can use every table',
    });
  }
  if (problems.length > 0) throw errors.invalidRequest(problems);
  return { kind, scopes, expiresAt };
}

/** Limits working keys, and all listed keys: ended ones are deleted only after `endedKeyDays`. */
async function checkKeyCount(control: Control, projectId: string): Promise<void> {
  const [row] = await control.query<{ live: number; all: number }>(sql`
    select count(*) filter (where revoked_at is null and (expires_at is null or expires_at > now()))::int as live,
           count(*)::int as "all"
    from keys where project_id = ${projectId}`);
  if (!row || (row.live < maxProjectKeys && row.all < maxProjectKeys * 10)) return;
  throw errors.conflict(
    `The project has ${row.live} active keys and ${row.all - row.live} ended ones, which is the limit.`,
    `Revoke keys that are no longer used. Ended keys are removed after ${endedKeyDays} days.`,
  );
}

/** Called by the background work. */
export async function forgetEndedKeys(control: Control): Promise<void> {
  await control.query(sql`
    delete from keys
    -- This must match the index keys_ended.
    where (revoked_at is not null or expires_at is not null)
      and least(revoked_at, expires_at) < now() - make_interval(days => ${endedKeyDays})`);
}

function rotatedMeanwhile() {
  return errors.conflict(
    'Another request rotated the key at the same time.',
    'List the keys and retry if necessary.',
  );
}

function one<T>(row: T | undefined): T {
  if (row === undefined) throw new Error('A statement that returns a row returned none.');
  return row;
}
