// Hashing takes a quarter of a second of a core, so there are only so many places, and turns are fair among projects: a
// flood of sign-ins in one project is refused at the door, shuts out no other project and slows down no query.
import { randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { errors } from '../errors.ts';
import { keepHashChild } from './hash-child.ts';
import type { HashTask } from './hash-process.ts';
import { formatHash, hashBytes, parseHash, saltBytes } from './passwords.ts';

export type Hashing = {
  /** A place for one sign-up or sign-in, before anything is looked up. Throws errors.overloaded when there is none. */
  reserve(projectId: string): HashingSlot;
  /** `waiting`: for a slot. */
  counts(): { running: number; waiting: number };
  stop(): Promise<void>;
};

export type HashingSlot = {
  /** As it is to be kept. */
  hash(password: string): Promise<string>;
  /**
   * `kept` null: there is no such user; takes as long and never matches.
   * `isOutdated`: made with fewer iterations than now.
   */
  verify(password: string, kept: string | null): Promise<{ matches: boolean; isOutdated: boolean }>;
  /** Gives the place back; may be called twice. */
  release(): void;
};

type Options = {
  iterations: number;
  /** As many as there are cores, because hashing yields to everything else. */
  slots?: number;
  onError: (error: unknown) => void;
};

type Work = Omit<HashTask, 'id'>;
type Waiting = {
  work: Work;
  resolve: (hash: Buffer | Promise<Buffer>) => void;
  reject: (error: Error) => void;
  timer: NodeJS.Timeout;
};
type Reservation = {
  projectId: string;
  state: 'kept' | 'displaced' | 'released';
  waiting: Waiting | null;
  isHashing: boolean;
  /** What has cost CPU is not thrown away. */
  hasBegun: boolean;
  /** When it came, or was hashed last. */
  idleFrom: number;
};

/** Beside those that are hashing. */
const placesPerSlot = 8;
const waitMs = 2_000;
/** Looking a user up takes milliseconds. Whose database takes longer has locked it, and keeps out nobody but itself. */
const lookUpMs = 250;

export function openHashing({ iterations, slots = availableParallelism(), onError }: Options): Hashing {
  const child = keepHashChild({ slots, onError });
  /** In the order in which they came. */
  const reservations = new Set<Reservation>();
  /** Those who wait, by project; the project whose turn is next comes first. */
  const turns = new Map<string, Reservation[]>();
  let running = 0;
  let isStopped = false;

  const begin = () => {
    while (running < slots) {
      const [projectId, queue] = turns.entries().next().value ?? [];
      const reservation = queue?.shift();
      if (projectId === undefined || !queue || !reservation?.waiting) return;
      turns.delete(projectId);
      if (queue.length > 0) turns.set(projectId, queue);
      const { work, resolve, timer } = reservation.waiting;
      clearTimeout(timer);
      reservation.waiting = null;
      resolve(run(reservation, work));
    }
  };

  const run = async (reservation: Reservation, work: Work): Promise<Buffer> => {
    running++;
    reservation.isHashing = true;
    reservation.hasBegun = true;
    try {
      return await child.run(work);
    } finally {
      running--;
      reservation.isHashing = false;
      reservation.idleFrom = performance.now();
      begin();
    }
  };

  const wait = (reservation: Reservation, work: Work): Promise<Buffer> => {
    if (isStopped) throw errors.unavailable('stopping');
    if (reservation.state === 'displaced') throw tooMany();
    if (reservation.state === 'released') throw new Error('The place was given back before.');
    if (reservation.waiting || reservation.isHashing)
      throw new Error('A place is for one password at a time.');
    return new Promise((resolve, reject) => {
      const late = 'Too many sign-ups and sign-ins came before this one.';
      const timer = setTimeout(() => leave(reservation, busy(late)), waitMs);
      reservation.waiting = { work, resolve, reject, timer };
      const queue = turns.get(reservation.projectId);
      if (queue) queue.push(reservation);
      else turns.set(reservation.projectId, [reservation]);
      begin();
    });
  };

  /** Waits no longer. */
  const leave = (reservation: Reservation, reason: Error) => {
    if (!reservation.waiting) return;
    const { reject, timer } = reservation.waiting;
    clearTimeout(timer);
    reservation.waiting = null;
    const others = (turns.get(reservation.projectId) ?? []).filter((other) => other !== reservation);
    if (others.length > 0) turns.set(reservation.projectId, others);
    else turns.delete(reservation.projectId);
    reject(reason);
  };

  const giveUp = (reservation: Reservation, state: 'displaced' | 'released', reason: Error) => {
    reservation.state = state;
    reservations.delete(reservation);
    leave(reservation, reason);
  };

  const isFull = (projectId: string) => {
    const stuckBefore = performance.now() - lookUpMs;
    let idle = 0;
    for (const reservation of reservations) {
      const isStuck = !reservation.waiting && reservation.idleFrom < stuckBefore;
      if (!reservation.isHashing && (!isStuck || reservation.projectId === projectId)) idle++;
    }
    return idle >= placesPerSlot * slots;
  };

  /**
   * The greediest project gives up its newest place that has cost nothing yet, unless the other would then hold more
   * than it does: two floods would only take places from each other.
   */
  const makeRoom = (projectId: string) => {
    const held = new Map<string, number>();
    for (const reservation of reservations)
      held.set(reservation.projectId, (held.get(reservation.projectId) ?? 0) + 1);
    let most = (held.get(projectId) ?? 0) + 2;
    let newest: Reservation | null = null;
    for (const reservation of reservations) {
      const count = held.get(reservation.projectId) ?? 0;
      if (reservation.hasBegun || count < most) continue;
      most = count;
      newest = reservation;
    }
    if (!newest) throw tooMany();
    giveUp(newest, 'displaced', tooMany());
  };

  const hash = async (reservation: Reservation, password: string): Promise<string> => {
    const salt = randomBytes(saltBytes);
    const work = { password, salt: salt.toString('base64'), iterations, burn: 0 };
    return formatHash({ iterations, salt, hash: await wait(reservation, work) });
  };

  const verify = async (reservation: Reservation, password: string, kept: string | null) => {
    const known = kept === null ? null : parseHash(kept);
    if (kept !== null && !known) onError(new Error('A kept password hash cannot be read.'));
    // Nobody's: the same work for an e-mail that is not there.
    const { salt, hash, ...made } = known ?? {
      iterations,
      salt: randomBytes(saltBytes),
      hash: randomBytes(hashBytes),
    };
    // One that was made with fewer iterations takes as long as any other.
    const burn = Math.max(0, iterations - made.iterations);
    const work = { password, salt: salt.toString('base64'), iterations: made.iterations, burn };
    const isSame = timingSafeEqual(await wait(reservation, work), hash);
    return { matches: isSame && known !== null, isOutdated: made.iterations < iterations };
  };

  return {
    reserve: (projectId) => {
      if (isStopped) throw errors.unavailable('stopping');
      if (isFull(projectId)) makeRoom(projectId);
      const reservation: Reservation = {
        ...{ projectId, state: 'kept', waiting: null, isHashing: false, hasBegun: false },
        idleFrom: performance.now(),
      };
      reservations.add(reservation);
      return {
        hash: (password) => hash(reservation, password),
        verify: (password, kept) => verify(reservation, password, kept),
        release: () => {
          if (reservation.state === 'kept') giveUp(reservation, 'released', errors.unavailable('given back'));
        },
      };
    },
    counts: () => {
      let waiting = 0;
      for (const queue of turns.values()) waiting += queue.length;
      return { running, waiting };
    },
    stop: async () => {
      isStopped = true;
      for (const reservation of [...reservations]) leave(reservation, errors.unavailable('stopping'));
      await child.stop();
    },
  };
}

function tooMany(): Error {
  return busy('Too many sign-ups and sign-ins are waiting already.');
}

/** Those who are refused together do not all come back together. */
function busy(message: string): Error {
  return errors.overloaded(message, randomInt(1, 3));
}
