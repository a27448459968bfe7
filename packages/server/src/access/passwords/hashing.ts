// The queue for password hashing. A hash takes about a fifth of a second of a core, so slots (hashes that run at once) and
// reservations (requests that may wait for a slot) are limited and shared fairly among accounts, and among their projects: a
// flood of sign-ins in one project is refused before it costs anything, blocks no other project and leaves half of the cores to
// queries. The process that hashes has the usual priority, above PostgreSQL's: at the lowest one, six heavy statements of another
// account took a sign-in from 0.7 s to 29.5 s.
//
// The price of a hash is the rounds of PBKDF2: `iterations` is the setting ROWHOUSE_PASSWORD_ITERATIONS (default 600,000, declared in
// packages/api/src/settings.ts). passwords.ts stores them with each hash; a hash with fewer is replaced at the next sign-in
// (access/end-users/sign-in.ts).

import { randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { errors } from '../../errors/errors.ts';
import { AccountQueues, AccountTurns } from '../../lib/account-turns.ts';
import { hashTurnMs } from '../../settings/limits/passwords.ts';
import { keepHashChild } from './hash-child.ts';
import type { HashWork } from './hash-process.ts';
import { formatHash, hashBytes, parseBcrypt, parseHash, saltBytes } from './passwords.ts';

export type Hashing = {
  /** For one sign-up or sign-in, to be taken before any database look-up. Throws errors.overloaded if none is free. */
  reserve(projectId: string, accountId?: string): Reservation;
  /** `waiting`: hashes that wait for a slot. */
  counts(): { running: number; waiting: number };
  stop(): Promise<void>;
};

export type Reservation = {
  /** Returns the text to be stored. */
  hash(password: string): Promise<string>;
  /**
   * `stored` null: there is no such user; this takes the same time and never matches.
   * `isOutdated`: hashed with fewer iterations than configured now, or by bcrypt.
   */
  verify(password: string, stored: string | null): Promise<{ matches: boolean; isOutdated: boolean }>;
  /** May be called more than once. */
  release(): void;
};

type Options = {
  iterations: number;
  /** Defaults to half of the cores. */
  slots?: number;
  /** Called when a hash begins. */
  onBegin?: () => void;
  /** How long a caller waits, all in all. */
  withinMs?: number;
  onError: (error: unknown) => void;
};

type Waiting = {
  work: HashWork;
  resolve: (hash: Buffer | Promise<Buffer>) => void;
  reject: (error: Error) => void;
  timer: NodeJS.Timeout;
};

/** The state of a reservation. */
type Entry = {
  projectId: string;
  accountId: string;
  state: 'held' | 'displaced' | 'released';
  waiting: Waiting | null;
  isHashing: boolean;
  /** It has cost CPU time, so it is not displaced. */
  hasBegun: boolean;
  /** When it was made, or when its last hash ended. */
  idleFrom: number;
  /** Then its caller is told that it takes too long. */
  until: number;
  /** How many of its account were waiting or hashing when it began to wait. */
  ownAhead: number;
};

/** Measured on one core. Where other work keeps all cores busy, a hash may take up to twice as long. */
const [iterationsPerMs, slowdown] = [3_000, 2];
const maxPerSlot = 12;
/** So many of the same account ahead of one, for each slot, are why it is late. Fewer have their turn in time even on a busy machine. */
const ownAheadPerSlot = 4;
/**
 * From the reservation to the end of the last hash. Nothing is written before, and with what follows this is less than a request may
 * take: a caller who waited in vain knows that nothing was changed.
 */
const usualWithinMs = 12_000;
/**
 * Looking a user up takes milliseconds. A project that takes longer has locked its tables, and must block only itself.
 */
const lookUpMs = 250;

export function openHashing({
  iterations,
  slots = slotsFor(availableParallelism()),
  withinMs = usualWithinMs,
  onBegin = () => {},
  onError,
}: Options): Hashing {
  const child = keepHashChild({ slots, onError });
  const places = slots * placesPerSlot(iterations);
  /** In order of arrival. */
  const reservations = new Set<Entry>();
  /** Those that wait for a slot. */
  const waiting = new AccountQueues<Entry>();
  let running = 0;
  const accounts = new AccountTurns();
  let isStopped = false;

  const begin = () => {
    while (running < slots) {
      const found = waiting.next(accounts);
      const entry = found?.queue.shift();
      if (!found || !entry?.waiting) return;
      waiting.delete(found.account, found.project);
      if (found.queue.length > 0) waiting.set(found.account, found.project, found.queue);
      const { work, resolve, timer } = entry.waiting;
      clearTimeout(timer);
      entry.waiting = null;
      resolve(run(entry, work));
    }
  };

  const run = async (entry: Entry, work: HashWork): Promise<Buffer> => {
    running++;
    accounts.begin(entry.accountId);
    entry.isHashing = true;
    entry.hasBegun = true;
    onBegin();
    // The process goes on with what nobody waits for any more: until then, its slot is taken.
    const hashed = child.run(work).finally(() => {
      running--;
      accounts.end(entry.accountId);
      entry.isHashing = false;
      entry.idleFrom = performance.now();
      begin();
    });
    return inTime(hashed, entry.until);
  };

  const wait = (entry: Entry, work: HashWork): Promise<Buffer> => {
    if (isStopped) throw errors.unavailable('stopping');
    if (entry.state === 'displaced') throw tooMany();
    if (entry.state === 'released') throw new Error('The place was given back before.');
    if (entry.waiting || entry.isHashing) throw new Error('A place is for one password at a time.');
    const leftMs = entry.until - performance.now();
    if (leftMs <= 0) throw tooSlow();
    entry.ownAhead = ownBusy(entry);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => leave(entry, whyLate(entry)), Math.min(hashTurnMs, leftMs));
      entry.waiting = { work, resolve, reject, timer };
      const queue = waiting.get(entry.accountId, entry.projectId);
      if (queue) queue.push(entry);
      else waiting.set(entry.accountId, entry.projectId, [entry]);
      begin();
    });
  };

  const ownBusy = ({ accountId }: Entry): number => {
    let own = 0;
    for (const entry of reservations)
      if (entry.accountId === accountId && (entry.waiting || entry.isHashing)) own++;
    return own;
  };

  /** A flood of its own account was in its way, or the service is slow. */
  const whyLate = ({ ownAhead }: Entry): Error =>
    ownAhead >= slots * ownAheadPerSlot
      ? busy('Too many sign-ups and sign-ins are ahead of this one.')
      : tooSlow();

  /** Stops waiting for a slot. */
  const leave = (entry: Entry, reason: Error) => {
    if (!entry.waiting) return;
    const { accountId, projectId } = entry;
    const { reject, timer } = entry.waiting;
    clearTimeout(timer);
    entry.waiting = null;
    const others = (waiting.get(accountId, projectId) ?? []).filter((other) => other !== entry);
    if (others.length > 0) waiting.set(accountId, projectId, others);
    else waiting.delete(accountId, projectId);
    reject(reason);
  };

  const drop = (entry: Entry, state: 'displaced' | 'released', reason: Error) => {
    entry.state = state;
    reservations.delete(entry);
    leave(entry, reason);
  };

  const isFull = (projectId: string) => {
    const stuckBefore = performance.now() - lookUpMs;
    let idle = 0;
    for (const entry of reservations) {
      const isStuck = !entry.waiting && entry.idleFrom < stuckBefore;
      if (!entry.isHashing && (!isStuck || entry.projectId === projectId)) idle++;
    }
    return idle >= places;
  };

  /**
   * Displaces a reservation of the account that holds the most, or of the project that does within the same account: the
   * newest one that has cost no CPU time yet. Refuses if the new one would then hold more than that one: two floods would
   * only displace each other.
   */
  const displaceOne = (projectId: string, accountId: string) => {
    const newest =
      newestOfLargest(reservations, ofAccount, accountId) ??
      newestOfLargest(
        [...reservations].filter((entry) => entry.accountId === accountId),
        ofProject,
        projectId,
      );
    if (!newest) throw tooMany();
    drop(newest, 'displaced', tooMany());
  };

  const hash = async (entry: Entry, password: string): Promise<string> => {
    const salt = randomBytes(saltBytes);
    const work = { password, salt: salt.toString('base64'), iterations, burn: 0 };
    return formatHash({ iterations, salt, hash: await wait(entry, work) });
  };

  const verify = async (entry: Entry, password: string, stored: string | null) => {
    const bcrypt = stored === null ? null : parseBcrypt(stored);
    if (bcrypt) {
      const made = await wait(entry, { password, bcrypt: bcrypt.setting, burn: iterations });
      return {
        matches: made.length === bcrypt.hash.length && timingSafeEqual(made, bcrypt.hash),
        isOutdated: true,
      };
    }
    const known = stored === null ? null : parseHash(stored);
    if (stored !== null && !known) onError(new Error('A kept password hash cannot be read.'));
    // A random hash for an unknown e-mail: the same work, so timing does not reveal whether the user exists.
    const { salt, hash, ...made } = known ?? {
      iterations,
      salt: randomBytes(saltBytes),
      hash: randomBytes(hashBytes),
    };
    // A hash with fewer iterations takes the same time as any other.
    const burn = Math.max(0, iterations - made.iterations);
    const work = { password, salt: salt.toString('base64'), iterations: made.iterations, burn };
    const isSame = timingSafeEqual(await wait(entry, work), hash);
    return { matches: isSame && known !== null, isOutdated: made.iterations < iterations };
  };

  return {
    reserve: (projectId, accountId = projectId) => {
      if (isStopped) throw errors.unavailable('stopping');
      if (isFull(projectId)) displaceOne(projectId, accountId);
      const entry: Entry = {
        projectId,
        accountId,
        state: 'held',
        waiting: null,
        isHashing: false,
        hasBegun: false,
        idleFrom: performance.now(),
        until: performance.now() + withinMs,
        ownAhead: 0,
      };
      reservations.add(entry);
      return {
        hash: (password) => hash(entry, password),
        verify: (password, stored) => verify(entry, password, stored),
        release: () => {
          if (entry.state === 'held') drop(entry, 'released', errors.unavailable('given back'));
        },
      };
    },
    counts: () => ({ running, waiting: waiting.count() }),
    stop: async () => {
      isStopped = true;
      for (const entry of [...reservations]) leave(entry, errors.unavailable('stopping'));
      await child.stop();
    },
  };
}

const ofAccount = ({ accountId }: Entry) => accountId;
const ofProject = ({ projectId }: Entry) => projectId;

/** The newest entry of whoever holds at least two more than `own`. null: nobody does. */
function newestOfLargest(
  entries: Iterable<Entry>,
  holderOf: (entry: Entry) => string,
  own: string,
): Entry | null {
  const all = [...entries];
  const held = new Map<string, number>();
  for (const entry of all) held.set(holderOf(entry), (held.get(holderOf(entry)) ?? 0) + 1);
  let maxHeld = (held.get(own) ?? 0) + 2;
  let newest: Entry | null = null;
  for (const entry of all) {
    const count = held.get(holderOf(entry)) ?? 0;
    if (entry.hasBegun || count < maxHeld) continue;
    maxHeld = count;
    newest = entry;
  }
  return newest;
}

/**
 * Reservations in addition to those that are hashing: as many as have their turn before they give up. More would wait in vain, and
 * those of a flood for nothing. With fewer iterations than usual, no more are needed.
 */
export function placesPerSlot(iterations: number): number {
  const hashMs = (iterations / iterationsPerMs) * slowdown;
  return Math.max(1, Math.min(maxPerSlot, Math.floor(hashTurnMs / hashMs)));
}

export function slotsFor(cores: number): number {
  return Math.max(1, Math.floor(cores / 2));
}

function inTime<T>(work: Promise<T>, until: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(tooSlow()), Math.max(0, until - performance.now()));
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

function tooSlow(): Error {
  return errors.signInTooSlow(randomInt(2, 6));
}

function tooMany(): Error {
  return busy('Too many sign-ups and sign-ins are waiting.');
}

/** A random delay, so that requests refused together do not all retry together. */
function busy(message: string): Error {
  return errors.overloaded(message, randomInt(1, 3));
}
