// Repeated requests: stores the first response for an Idempotency-Key for a day and returns it again. It is stored in the
// control database, so that it survives restarts and is shared by all processes. A key is reserved before anything runs.
// A request whose process died is never run again, because it is unknown how far it got.

import { createHash, createHmac, hkdfSync, randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Control } from '../control/control.ts';
import { sealBytes, unsealBytes } from '../control/seal.ts';
import { errors } from '../errors/errors.ts';
import type { Caller } from '../keys/caller.ts';
import { upTo } from '../lib/cache-size.ts';
import { isState } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { idempotencyLimits, keptResponseHours } from '../settings/limits/idempotency.ts';

export type IdempotentRequest = {
  caller: Caller;
  /** The acting user, if there is one. */
  user: string | null;
  method: string;
  path: string;
  key: string;
  /** SHA-256 of the query string and the body; null while the body is still being streamed. */
  fingerprint: Buffer | null;
  /** The same for a streamed body, which is read to its end. */
  readToEnd(): Promise<Buffer>;
};

export type Answer = { status: number; contentType: string | null; location: string | null; body: Buffer };

export type Outcome =
  | { is: 'answered'; fingerprint: Buffer; answer: Answer }
  /** It ran, and the response cannot be returned again. */
  | { is: 'not_kept'; fingerprint: Buffer | null; status: number }
  | { is: 'unknown'; fingerprint: Buffer | null }
  /** The key is free again. */
  | { is: 'nothing_ran' };

export type Reservation = {
  /** Never throws: a failed write is retried, and until then the request counts as running. */
  end(outcome: Outcome): Promise<void>;
};

export type IdempotencyStore = {
  /** A reservation for the first request with this key, the stored response for a repeat; or throws. */
  begin(request: IdempotentRequest): Promise<{ reservation: Reservation } | { answer: Answer }>;
  stop(): Promise<void>;
};

type Options = {
  control: Control;
  masterKey: Buffer;
  now: () => number;
  onError: (error: unknown) => void;
  limits?: typeof idempotencyLimits;
};

type Held = { id: Buffer; holder: string };
type Unwritten = Held & { outcome: Exclude<Outcome, { is: 'answered' }> };

/** How many outcomes wait while PostgreSQL is unavailable. Further ones end as unknown. */
const maxUnwritten = 10_000;

export function openIdempotency({
  control,
  masterKey,
  now,
  onError,
  limits = idempotencyLimits,
}: Options): IdempotencyStore {
  /** A plain hash of a body with a password would allow guessing the password. */
  const fingerprintKey = Buffer.from(hkdfSync('sha256', masterKey, '', 'rowhouse fingerprints', 32));
  const keyed = (plain: Buffer) => createHmac('sha256', fingerprintKey).update(plain).digest();
  const keyedOrNull = (plain: Buffer | null) => plain && keyed(plain);
  const running = new Set<Held>();
  const unwritten = new Set<Unwritten>();
  const usages = watchUsage(control);

  const beat = async () => {
    for (const left of [...unwritten]) {
      await write(control, left, left.outcome);
      unwritten.delete(left);
    }
    if (running.size > 0) await stayAlive(control, [...running], limits.aliveMs);
  };
  let beating: Promise<void> | null = null;
  const timer = setInterval(() => {
    beating ??= beat()
      .catch(onError)
      .finally(() => {
        beating = null;
      });
  }, limits.beatMs).unref();

  const writeLater = (left: Unwritten) => {
    if (unwritten.size < maxUnwritten) unwritten.add(left);
  };

  const hold = (held: Held, usage: Usage): Reservation => {
    running.add(held);
    return {
      end: async (given) => {
        const outcome = withFingerprint(given, keyedOrNull);
        const bounded = withinBounds(outcome, usage.bytes > limits.maxBytes, limits);
        try {
          if (bounded.is === 'answered') {
            usage.bytes += bounded.answer.body.length;
            await keep(control, held, bounded, masterKey);
          } else await write(control, held, bounded);
        } catch (error) {
          onError(error);
          writeLater({ ...held, outcome: withoutAnswer(bounded) });
        } finally {
          running.delete(held);
        }
      },
    };
  };

  const reserve = async (id: Buffer, request: IdempotentRequest, usage: Usage): Promise<Held | null> => {
    const held = { id, holder: randomUUID() };
    const { accountId, kind } = request.caller;
    const at = now();
    try {
      const mine = await control.query(sql`
        insert into repeats (id, account_id, is_public, holder, alive_until, fingerprint, expires_at)
        values (${id}, ${accountId}, ${kind === 'publishable'}, ${held.holder},
                clock_timestamp() + make_interval(secs => ${limits.aliveMs / 1000}), ${request.fingerprint},
                ${new Date(at + keptResponseHours * 60 * 60_000)})
        on conflict (id) do update
          set state = 'running', holder = excluded.holder, alive_until = excluded.alive_until,
              fingerprint = excluded.fingerprint, expires_at = excluded.expires_at,
              status = null, content_type = null, location = null, answer = null
          where repeats.expires_at <= ${new Date(at)}
            and (repeats.state <> 'running' or repeats.alive_until < clock_timestamp())
        returning 1`);
      if (mine.length > 0) usage.begun++;
      return mine.length > 0 ? held : null;
    } catch (error) {
      if (isState(error, sqlstate.lockNotAvailable)) throw errors.repeatRunning();
      // The row may have been written nevertheless, and nothing will run.
      writeLater({ ...held, outcome: { is: 'nothing_ran' } });
      throw error;
    }
  };

  return {
    begin: async (plain) => {
      const request: IdempotentRequest = {
        ...plain,
        fingerprint: keyedOrNull(plain.fingerprint),
        readToEnd: async () => keyed(await plain.readToEnd()),
      };
      const id = idOf(request);
      const usage = await usages.of(request.caller.accountId);
      const isFull = isOver(usage, request.caller, limits.maxKeys);
      // The first request may end, and free the key, between the two queries.
      for (let attempt = 0; attempt < 10; attempt++) {
        const held = isFull ? null : await reserve(id, request, usage);
        if (held) return { reservation: hold(held, usage) };
        const first = await find(control, id, now());
        if (first) return { answer: await answerAgain(request, id, first, masterKey) };
        if (isFull) throw errors.tooManyRepeats(shareOf(request.caller, limits.maxKeys));
      }
      throw errors.repeatRunning();
    },
    stop: async () => {
      clearInterval(timer);
      await beating;
      await beat().catch(onError);
    },
  };
}

/** Part of the background work. In small and few batches, because other work is waiting. */
export async function forgetOldIdempotencyKeys(control: Control, now: number): Promise<void> {
  for (let batch = 0; batch < 10; batch++) {
    const gone = await control.query(sql`
      delete from repeats where id = any (array(
        select id from repeats
        where expires_at <= ${new Date(now)} and (state <> 'running' or alive_until < clock_timestamp())
        order by expires_at limit ${batchSize} for update skip locked))
      returning 1`);
    if (gone.length < batchSize) return;
  }
}

const batchSize = 1000;

/**
 * Different callers and users never share an Idempotency-Key. The project keys before and after a rotation do, because a
 * repeat may come after the rotation.
 */
function idOf({ caller, user, method, path, key }: IdempotentRequest): Buffer {
  const owner = ownerOf(caller);
  return createHash('sha256')
    .update(JSON.stringify([caller.kind, owner, method, path, key, ...(user === null ? [] : [user])]))
    .digest();
}

function ownerOf(caller: Caller): string {
  if (caller.kind === 'project') return caller.projectId;
  // Another role must not get the response that an owner got.
  return caller.kind === 'account' && caller.role === 'owner' && caller.person === null
    ? caller.accountId
    : `${caller.accountId} ${caller.keyId}`;
}

type First = {
  state: 'running' | 'kept' | 'not_kept' | 'unknown';
  isAlive: boolean;
  fingerprint: Buffer | null;
  status: number | null;
  contentType: string | null;
  location: string | null;
  answer: Buffer | null;
};

async function find(control: Control, id: Buffer, now: number): Promise<First | null> {
  const [row] = await control.query<First>(sql`
    select state, alive_until >= clock_timestamp() as "isAlive", fingerprint, status,
           content_type as "contentType", location, answer
    from repeats where id = ${id} and (expires_at > ${new Date(now)} or state = 'running')`);
  return row ?? null;
}

async function answerAgain(
  request: IdempotentRequest,
  id: Buffer,
  { state, isAlive, fingerprint, status, contentType, location, answer }: First,
  masterKey: Buffer,
): Promise<Answer> {
  // Null: the first request never reached the end of its body, so there is nothing to compare.
  const own = fingerprint && (request.fingerprint ?? (await request.readToEnd()));
  if (fingerprint && !own?.equals(fingerprint)) throw errors.repeatDiffers();
  if (state === 'running' && isAlive) throw errors.repeatRunning();
  if (state === 'not_kept') throw errors.repeatNotKept(status);
  if (state !== 'kept' || answer === null || status === null) throw errors.repeatUnknown();
  const body = unsealBytes(masterKey, 'kept answers', answer, id.toString('hex'));
  return { status, contentType, location, body };
}

function withFingerprint(outcome: Outcome, keyed: (plain: Buffer | null) => Buffer | null): Outcome {
  return 'fingerprint' in outcome
    ? ({ ...outcome, fingerprint: keyed(outcome.fingerprint) } as Outcome)
    : outcome;
}

function withinBounds(outcome: Outcome, isOverBytes: boolean, limits: typeof idempotencyLimits): Outcome {
  if (outcome.is !== 'answered') return outcome;
  const room = isOverBytes ? limits.smallBytes : limits.maxAnswerBytes;
  return outcome.answer.body.length > room ? withoutAnswer(outcome) : outcome;
}

function withoutAnswer(outcome: Outcome): Unwritten['outcome'] {
  if (outcome.is !== 'answered') return outcome;
  return { is: 'not_kept', fingerprint: outcome.fingerprint, status: outcome.answer.status };
}

async function keep(
  control: Control,
  { id, holder }: Held,
  { fingerprint, answer }: Extract<Outcome, { is: 'answered' }>,
  masterKey: Buffer,
): Promise<void> {
  const sealed = sealBytes(masterKey, 'kept answers', answer.body, id.toString('hex'));
  await control.query(sql`
    update repeats
    set state = 'kept', fingerprint = ${fingerprint}, status = ${answer.status},
        content_type = ${answer.contentType}, location = ${answer.location}, answer = ${sealed}
    where id = ${id} and holder = ${holder}`);
}

async function write(control: Control, { id, holder }: Held, outcome: Unwritten['outcome']): Promise<void> {
  if (outcome.is === 'nothing_ran') {
    await control.query(sql`delete from repeats where id = ${id} and holder = ${holder}`);
    return;
  }
  const status = outcome.is === 'not_kept' ? outcome.status : null;
  // A stored response was written by the previous attempt, whose confirmation was lost.
  await control.query(sql`
    update repeats
    set state = ${outcome.is}, status = ${status}::smallint,
        fingerprint = coalesce(${outcome.fingerprint}::bytea, fingerprint)
    where id = ${id} and holder = ${holder} and state = 'running'`);
}

async function stayAlive(control: Control, held: Held[], aliveMs: number): Promise<void> {
  await control.query(sql`
    update repeats set alive_until = clock_timestamp() + make_interval(secs => ${aliveMs / 1000})
    where id = any (${held.map(({ id }) => id)}::bytea[]) and holder = any (${held.map(({ holder }) => holder)}::uuid[])
      and state = 'running'`);
}

type Usage = { measuredAt: number; begun: number; count: number; publicCount: number; bytes: number };

const usageMs = 10_000;
const usageRequests = 500;

/** The usage of an account: measured regularly and estimated in between. A counter row would be a lock for all its requests. */
function watchUsage(control: Control): { of(accountId: string): Promise<Usage> } {
  const known = new LRUCache<string, Promise<Usage>>(upTo(10_000));
  const measure = async (accountId: string): Promise<Usage> => {
    const [row] = await control.query<Omit<Usage, 'measuredAt' | 'begun'>>(sql`
      select count(*)::int as count, (count(*) filter (where is_public))::int as "publicCount",
             coalesce(sum(octet_length(answer)), 0)::float8 as bytes
      from repeats where account_id = ${accountId}`);
    return { measuredAt: performance.now(), begun: 0, count: 0, publicCount: 0, bytes: 0, ...row };
  };
  return {
    of: async (accountId) => {
      const pending = known.get(accountId);
      const last = await pending?.catch(() => undefined);
      if (last && last.begun < usageRequests && performance.now() - last.measuredAt < usageMs) return last;
      // Only one of many simultaneous requests measures.
      const other = known.get(accountId);
      if (other && other !== pending) return other;
      const fresh = measure(accountId);
      known.set(accountId, fresh);
      return fresh;
    },
  };
}

function isOver({ count, publicCount, begun }: Usage, caller: Caller, maxKeys: number): boolean {
  if (count + begun >= maxKeys) return true;
  return caller.kind === 'publishable' && publicCount + begun >= shareOf(caller, maxKeys);
}

function shareOf(caller: Caller, maxKeys: number): number {
  return caller.kind === 'publishable' ? maxKeys / 10 : maxKeys;
}
