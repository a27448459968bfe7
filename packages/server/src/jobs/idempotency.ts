// Repeated requests: stores the first response for an Idempotency-Key for a day and returns it again. It is stored in the
// control database, so that it survives restarts and is shared by all processes. A key is reserved before anything runs.
// A request whose process died is never run again, because it is unknown how far it got.

import { createHash, createHmac, hkdfSync, randomUUID } from 'node:crypto';
import type { Control } from '../control/control.ts';
import { sealBytes, unsealBytes } from '../control/seal.ts';
import { errors } from '../errors/errors.ts';
import type { Caller } from '../keys/caller.ts';
import { openGroups } from '../lib/groups.ts';
import { openInFlight } from '../lib/in-flight.ts';
import { isState, PostgresError } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { sqlstate } from '../postgres/sqlstate.ts';
import { idempotencyLimits, keptResponseHours } from '../settings/limits/idempotency.ts';
import {
  type EndedRow,
  endAlone,
  endTogether,
  type FoundRow,
  findRow,
  type Held,
  type NewRow,
  reserveAlone,
  reserveTogether,
  stayAlive,
} from './repeat-rows.ts';
import { isOver, shareOf, type Usage, watchUsage } from './repeat-usage.ts';

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

/** How many outcomes wait while PostgreSQL is unavailable. Further ones end as unknown. */
const maxUnwritten = 10_000;
/** One statement writes this many rows, and this many bytes of responses; a larger response has a statement of its own. */
const [sharedRows, sharedBytes] = [100, 256 * 1024];
/** With a second one, a connection that no longer answers does not stop all. More would only make each smaller. */
const statementsUnderWay = 2;

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
  const running = new Set<Held>();
  const unwritten = new Set<EndedRow>();
  const usages = watchUsage(control);
  const reserving = openInFlight<NewRow | null>();

  const times = () => {
    const at = now();
    return {
      at: new Date(at),
      expiresAt: new Date(at + keptResponseHours * 60 * 60_000),
      aliveMs: limits.aliveMs,
    };
  };
  const isUndone = (error: unknown) => error instanceof PostgresError;
  const reservations = openGroups<NewRow, boolean>({
    runTogether: (rows) => reserveTogether(control, rows, times()),
    runAlone: (row) => reserveAlone(control, row, times()),
    isUndone,
    maxEntries: sharedRows,
    maxUnderWay: statementsUnderWay,
  });
  const endings = openGroups<EndedRow, void>({
    runTogether: async (rows) => {
      await endTogether(control, rows);
      return [];
    },
    runAlone: (row) => endAlone(control, row),
    isUndone,
    maxEntries: sharedRows,
    maxUnderWay: statementsUnderWay,
    maxBytes: sharedBytes,
    bytesOf: ({ answer }) => answer?.length ?? 0,
  });

  const beat = async () => {
    // First: a row that cannot be written must not let running requests count as dead.
    if (running.size > 0) await stayAlive(control, running, limits.aliveMs);
    const written = await Promise.allSettled(
      [...unwritten].map(async (left) => {
        await endings.run(left.accountId, left);
        unwritten.delete(left);
      }),
    );
    const failed = written.find(({ status }) => status === 'rejected');
    if (failed) throw (failed as PromiseRejectedResult).reason;
  };
  let beating: Promise<void> | null = null;
  const timer = setInterval(() => {
    beating ??= beat()
      .catch(onError)
      .finally(() => {
        beating = null;
      });
  }, limits.beatMs).unref();

  const writeLater = (left: EndedRow) => {
    if (unwritten.size < maxUnwritten) unwritten.add(left);
  };

  const hold = (held: NewRow, plain: Buffer | null, usage: Usage): Reservation => {
    running.add(held);
    return {
      end: async (given) => {
        const outcome = withinBounds(given, usage.bytes > limits.maxBytes, limits);
        if (outcome.is === 'answered') usage.bytes += outcome.answer.body.length;
        const hash = 'fingerprint' in outcome ? outcome.fingerprint : null;
        // It was computed for the reservation, unless the body was streamed.
        const fingerprint = hash === plain ? held.fingerprint : hash && keyed(hash);
        try {
          await endings.run(held.accountId, endedRow(held, fingerprint, outcome, masterKey));
        } catch (error) {
          onError(error);
          writeLater(endedRow(held, fingerprint, withoutAnswer(outcome), masterKey));
        } finally {
          running.delete(held);
        }
      },
    };
  };

  /** null: the key is reserved, or was used. Requests with the same key share a reservation, which is that of the first one. */
  const reserve = async (row: NewRow, usage: Usage, isRetry: boolean): Promise<NewRow | null> => {
    const holder = await reserving(row.id.toString('latin1'), async () => {
      try {
        // Together, rows that have expired are not taken over.
        const isMine = isRetry
          ? await reserveAlone(control, row, times())
          : await reservations.run(row.accountId, row);
        if (isMine) usage.begun++;
        return isMine ? row : null;
      } catch (error) {
        if (isState(error, sqlstate.lockNotAvailable)) throw errors.repeatRunning();
        // The row may have been written nevertheless, and nothing will run.
        writeLater(endedRow(row, null, { is: 'nothing_ran' }, masterKey));
        throw error;
      }
    });
    return holder === row ? row : null;
  };

  return {
    begin: async (plain) => {
      const request: IdempotentRequest = {
        ...plain,
        fingerprint: plain.fingerprint && keyed(plain.fingerprint),
        readToEnd: async () => keyed(await plain.readToEnd()),
      };
      const { caller, fingerprint } = request;
      const { accountId, kind } = caller;
      const id = idOf(request);
      const isOverKeys = (usage: Usage) => isOver(usage, caller, limits.maxKeys);
      const usage = await usages.of(accountId, isOverKeys);
      const isFull = isOverKeys(usage);
      // The first request may end, and free the key, between the two queries.
      for (let attempt = 0; attempt < 10; attempt++) {
        const row = { id, holder: randomUUID(), accountId, isPublic: kind === 'publishable', fingerprint };
        const held = isFull ? null : await reserve(row, usage, attempt > 0);
        if (held) return { reservation: hold(held, plain.fingerprint, usage) };
        const first = await findRow(control, id, new Date(now()));
        if (first) return { answer: await answerAgain(request, id, first, masterKey) };
        if (isFull) throw errors.tooManyRepeats(shareOf(caller, limits.maxKeys));
      }
      throw errors.repeatRunning();
    },
    stop: async () => {
      clearInterval(timer);
      await beating;
      await endings.settled();
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

async function answerAgain(
  request: IdempotentRequest,
  id: Buffer,
  { state, isAlive, fingerprint, status, contentType, location, answer }: FoundRow,
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

function withinBounds(outcome: Outcome, isOverBytes: boolean, limits: typeof idempotencyLimits): Outcome {
  if (outcome.is !== 'answered') return outcome;
  const room = isOverBytes ? limits.smallBytes : limits.maxAnswerBytes;
  return outcome.answer.body.length > room ? withoutAnswer(outcome) : outcome;
}

function withoutAnswer(outcome: Outcome): Exclude<Outcome, { is: 'answered' }> {
  if (outcome.is !== 'answered') return outcome;
  return { is: 'not_kept', fingerprint: outcome.fingerprint, status: outcome.answer.status };
}

/** `fingerprint`: by our key. */
function endedRow(
  { id, holder, accountId }: NewRow,
  fingerprint: Buffer | null,
  outcome: Outcome,
  masterKey: Buffer,
): EndedRow {
  const row = { id, holder, accountId, fingerprint };
  const without = { status: null, contentType: null, location: null, answer: null };
  if (outcome.is === 'nothing_ran') return { ...row, ...without, state: null };
  if (outcome.is === 'unknown') return { ...row, ...without, state: 'unknown' };
  if (outcome.is === 'not_kept') return { ...row, ...without, state: 'not_kept', status: outcome.status };
  const { body, ...head } = outcome.answer;
  const answer = sealBytes(masterKey, 'kept answers', body, id.toString('hex'));
  return { ...row, ...head, state: 'kept', answer };
}
