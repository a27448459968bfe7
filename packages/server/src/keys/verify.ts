// Resolves an API key to its caller: checksum, hash, then a cache of keys seen before. The change feed invalidates the
// cache on every process; while the feed is behind, each request looks its key up in the database.
import { timingSafeEqual } from 'node:crypto';
import type { Role, Scope } from '@rowhouse/api';
import { LRUCache } from 'lru-cache';
import type { Change, Feed } from '../control/change-feed.ts';
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { upTo } from '../lib/cache-size.ts';
import { openInFlight } from '../lib/in-flight.ts';
import { sql } from '../postgres/sql.ts';
import type { Caller, OperatorCaller, ProjectCaller } from './caller.ts';
import { hashKey, looksLikeKey, readKeyPrefix } from './form.ts';
import { openRoleLogins } from './role-logins.ts';
import { isOperatorRole } from './roles.ts';
import { openSigningKeys, type SigningKey } from './signing-keys.ts';

export type KeyRing = {
  /** Throws unless the key is valid now, belongs to an account or a project, and its account may be used. */
  verify(key: string): Promise<Caller>;
  /** The same for keys of every kind. */
  verifyAny(key: string): Promise<Caller | OperatorCaller>;
  /** The caller of a valid key, if it is cached; null otherwise. */
  recall(key: string): Caller | null;
  /** The same for the role and the password of a project's direct connection. */
  verifyRole(role: string, password: string): Promise<ProjectCaller>;
  /** The keys with which a project's tokens may be signed now; the first one signs new tokens. */
  signingKeys(projectId: string): Promise<readonly SigningKey[]>;
  /** The same, if they are cached; null otherwise. */
  recallSigningKeys(projectId: string): readonly SigningKey[] | null;
  stop(): Promise<void>;
};

type Options = {
  control: Control;
  feed: Feed;
  masterKey: Buffer;
  now: () => number;
  onError: (error: unknown) => void;
};

const maxCachedKeys = 20_000;
const flushMs = 5_000;

export function openKeyRing({ control, feed, masterKey, now, onError }: Options): KeyRing {
  const cached = new LRUCache<string, Caller | OperatorCaller>(upTo(maxCachedKeys));
  const used = new Map<string, number>();
  // Checksum and hash of a valid key are computed once, not with every request.
  const hashes = new LRUCache<string, { hash: Buffer; name: string }>(upTo(maxCachedKeys));
  // Concurrent requests with one key share one look-up: otherwise one caller's burst would block the control database.
  const shareLookUp = openInFlight<Caller | OperatorCaller | null>();
  let changes = 0;

  const forget = (change: Change) => {
    const { projectId, keyId, accountId } = change;
    changes++;
    signing.forget(change);
    roles.forget(change);
    shareLookUp.forget();
    for (const [hash, caller] of cached.entries()) {
      if (caller.keyId === keyId || isOf(caller, projectId, accountId)) cached.delete(hash);
    }
  };
  feed.listen(forget);
  feed.listenToReset(() => {
    changes++;
    signing.forgetAll();
    roles.forgetAll();
    shareLookUp.forget();
    cached.clear();
  });
  const signing = openSigningKeys({ control, masterKey, isFresh: feed.isFresh });
  const roles = openRoleLogins({ control, masterKey, isFresh: feed.isFresh });

  const flush = async () => {
    if (used.size === 0) return;
    const batch = [...used];
    used.clear();
    await recordUse(control, batch).catch(onError);
  };
  const flushing = setInterval(flush, flushMs).unref();

  const find = async (hash: Buffer): Promise<Caller | OperatorCaller | null> => {
    const name = hash.toString('latin1');
    const known = feed.isFresh() ? cached.get(name) : undefined;
    if (known) return known;
    return shareLookUp(name, () => lookUp(hash, name));
  };

  const lookUp = async (hash: Buffer, name: string): Promise<Caller | OperatorCaller | null> => {
    const changesBefore = changes;
    const caller = await findCaller(control, hash);
    // A change that arrived during the look-up may affect this key: then the result is not cached.
    if (caller && changes === changesBefore) cached.set(name, caller);
    return caller;
  };

  const verifyAny = async (key: string): Promise<Caller | OperatorCaller> => {
    const hash = hashes.get(key)?.hash ?? hashOf(key);
    if (hash === null) {
      throw looksLikeKey(key)
        ? errors.invalidApiKey(
            'This API key is mistyped: its checksum is wrong.',
            'Copy the whole key again.',
          )
        : errors.invalidApiKey(
            'This is not a Rowhouse API key.',
            'Send a key that begins with rh_acct_, rh_proj_ or rh_pub_.',
          );
    }
    const caller = await find(hash);
    if (caller) hashes.set(key, { hash, name: hash.toString('latin1') });
    const at = now();
    if (!caller || (caller.expiresAt !== null && caller.expiresAt <= at)) throw errors.invalidApiKey();
    used.set(caller.keyId, at);
    return caller;
  };

  return {
    recall: (key) => {
      const known = hashes.get(key);
      const caller = known && feed.isFresh() ? cached.get(known.name) : undefined;
      const at = now();
      if (!caller || caller.kind === 'operator') return null;
      if (caller.expiresAt !== null && caller.expiresAt <= at) return null;
      used.set(caller.keyId, at);
      return caller;
    },
    verify: async (key) => {
      const caller = await verifyAny(key);
      if (caller.kind === 'operator') throw errors.operatorForbidden();
      return caller;
    },
    verifyAny,
    verifyRole: roles.verify,
    signingKeys: signing.of,
    recallSigningKeys: signing.recall,
    stop: async () => {
      clearInterval(flushing);
      await flush();
    },
  };
}

function isOf(caller: Caller | OperatorCaller, projectId: string | null, accountId: string | null): boolean {
  if (caller.kind === 'operator') return false;
  if (accountId !== null && caller.accountId === accountId) return true;
  return caller.kind !== 'account' && caller.projectId === projectId;
}

/** null: the text does not have the format of a key. */
function hashOf(key: string): Buffer | null {
  return readKeyPrefix(key) ? hashKey(key) : null;
}

/** What a caller is made of: see `callerColumns`. */
export type CallerRow = {
  kind: 'account' | 'project' | 'scoped' | 'publishable' | 'operator';
  id: string;
  accountId: string | null;
  /** The role of an account key. */
  role: Role | null;
  isOperator: boolean | null;
  suspendedBecause: string | null;
  maxPerSecond: number | null;
  projectId: string | null;
  serverId: number | null;
  passwordVersion: number | null;
  isRotated: boolean;
  slug: string | null;
  filledBy: string | null;
  scopes: Scope[];
  tables: string[] | null;
  expiresAt: number | null;
};

/** Columns of `keys`, left join `projects`, left join `accounts`. */
export const callerColumns = sql`
  keys.kind, keys.id, keys.account_id as "accountId", keys.role, accounts.is_operator as "isOperator",
  accounts.suspended_because as "suspendedBecause", accounts.max_requests_per_second as "maxPerSecond", keys.project_id as "projectId",
  projects.server_id as "serverId", projects.password_version as "passwordVersion", keys.rotated_at is not null as "isRotated",
  projects.slug, projects.filled_by as "filledBy", keys.scopes, keys.tables,
  (extract(epoch from keys.expires_at) * 1000)::float8 as "expiresAt"`;

async function findCaller(control: Control, hash: Buffer): Promise<Caller | OperatorCaller | null> {
  const [row] = await control.query<CallerRow & { hash: Buffer }>(sql`
    select ${callerColumns}, keys.hash
    from keys
    left join projects on projects.id = keys.project_id
    left join accounts on accounts.id = keys.account_id
    where keys.hash = ${hash}
      and keys.revoked_at is null
      and (keys.expires_at is null or keys.expires_at > now())
      and (keys.project_id is null or projects.deleted_at is null)
      and accounts.deleted_at is null`);
  if (!row || !timingSafeEqual(row.hash, hash)) return null;
  const { kind, id: keyId, expiresAt } = row;
  return kind === 'operator' ? { kind, keyId, expiresAt } : toCaller(row);
}

/** null: it is not the key of an account or a project. */
export function toCaller(row: CallerRow): Caller | null {
  const { kind, id, accountId, role, projectId, serverId, passwordVersion, slug, expiresAt, maxPerSecond } =
    row;
  if (kind === 'operator' || accountId === null) return null;
  if (row.suspendedBecause !== null) throw errors.accountSuspended(row.suspendedBecause);
  if (kind === 'account') {
    if (role === null) return null;
    const isOperator = row.isOperator === true && isOperatorRole(role);
    return {
      kind,
      keyId: id,
      accountId,
      role,
      projects: null,
      isOperator,
      person: null,
      maxPerSecond,
      expiresAt,
    };
  }
  if (projectId === null || serverId === null || slug === null || passwordVersion === null) return null;
  if (row.filledBy !== null) throw errors.projectNotReady(slug, row.filledBy);
  const { isRotated, scopes, tables } = row;
  const facts = { projectId, serverId, passwordVersion, isRotated, slug, scopes, tables };
  return { kind, keyId: id, accountId, ...facts, maxPerSecond, expiresAt };
}

async function recordUse(control: Control, used: [id: string, at: number][]): Promise<void> {
  await control.query(sql`
    update keys set last_used_at = greatest(last_used_at, to_timestamp(used.at / 1000))
    from unnest(${used.map(([id]) => id)}::text[], ${used.map(([, at]) => at)}::float8[]) as used (id, at)
    where keys.id = used.id`);
}
