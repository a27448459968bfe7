// Hashing takes a quarter of a second of a core, so there are only so many places, and turns are fair among projects: a
// flood of sign-ins in one project is refused at the door, shuts out no other project and slows down no query.
import { randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { errors } from '../errors.ts';
import { keepHashChild } from './hash-child.ts';
import type { Task } from './hash-process.ts';
import { formatHash, hashBytes, parseHash, saltBytes } from './passwords.ts';

export type Hashing = {
  /** A place for one sign-up or sign-in, before anything is looked up. Throws errors.overloaded when there is none. */
  reserve(projectId: string): Place;
  /** `waiting`: for a slot. */
  counts(): { running: number; waiting: number };
  stop(): Promise<void>;
};

export type Place = {
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

type Work = Omit<Task, 'id'>;
type Waiting = {
  work: Work;
  resolve: (hash: Buffer | Promise<Buffer>) => void;
  reject: (error: Error) => void;
  timer: NodeJS.Timeout;
};
type Seat = {
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
  const seats = new Set<Seat>();
  /** Those who wait, by project; the project whose turn is next comes first. */
  const turns = new Map<string, Seat[]>();
  let running = 0;
  let isStopped = false;

  const begin = () => {
    while (running < slots) {
      const [projectId, queue] = turns.entries().next().value ?? [];
      const seat = queue?.shift();
      if (projectId === undefined || !queue || !seat?.waiting) return;
      turns.delete(projectId);
      if (queue.length > 0) turns.set(projectId, queue);
      const { work, resolve, timer } = seat.waiting;
      clearTimeout(timer);
      seat.waiting = null;
      resolve(run(seat, work));
    }
  };

  const run = async (seat: Seat, work: Work): Promise<Buffer> => {
    running++;
    seat.isHashing = true;
    seat.hasBegun = true;
    try {
      return await child.run(work);
    } finally {
      running--;
      seat.isHashing = false;
      seat.idleFrom = performance.now();
      begin();
    }
  };

  const wait = (seat: Seat, work: Work): Promise<Buffer> => {
    if (isStopped) throw errors.unavailable('stopping');
    if (seat.state === 'displaced') throw tooMany();
    if (seat.state === 'released') throw new Error('The place was given back before.');
    if (seat.waiting || seat.isHashing) throw new Error('A place is for one password at a time.');
    return new Promise((resolve, reject) => {
      const late = 'Too many sign-ups and sign-ins came before this one.';
      const timer = setTimeout(() => leave(seat, busy(late)), waitMs);
      seat.waiting = { work, resolve, reject, timer };
      const queue = turns.get(seat.projectId);
      if (queue) queue.push(seat);
      else turns.set(seat.projectId, [seat]);
      begin();
    });
  };

  /** Waits no longer. */
  const leave = (seat: Seat, reason: Error) => {
    if (!seat.waiting) return;
    const { reject, timer } = seat.waiting;
    clearTimeout(timer);
    seat.waiting = null;
    const others = (turns.get(seat.projectId) ?? []).filter((other) => other !== seat);
    if (others.length > 0) turns.set(seat.projectId, others);
    else turns.delete(seat.projectId);
    reject(reason);
  };

  const giveUp = (seat: Seat, state: 'displaced' | 'released', reason: Error) => {
    seat.state = state;
    seats.delete(seat);
    leave(seat, reason);
  };

  const isFull = (projectId: string) => {
    const stuckBefore = performance.now() - lookUpMs;
    let idle = 0;
    for (const seat of seats) {
      const isStuck = !seat.waiting && seat.idleFrom < stuckBefore;
      if (!seat.isHashing && (!isStuck || seat.projectId === projectId)) idle++;
    }
    return idle >= placesPerSlot * slots;
  };

  /**
   * The greediest project gives up its newest place that has cost nothing yet, unless the other would then hold more
   * than it does: two floods would only take places from each other.
   */
  const makeRoom = (projectId: string) => {
    const held = new Map<string, number>();
    for (const seat of seats) held.set(seat.projectId, (held.get(seat.projectId) ?? 0) + 1);
    let most = (held.get(projectId) ?? 0) + 2;
    let newest: Seat | null = null;
    for (const seat of seats) {
      const count = held.get(seat.projectId) ?? 0;
      if (seat.hasBegun || count < most) continue;
      most = count;
      newest = seat;
    }
    if (!newest) throw tooMany();
    giveUp(newest, 'displaced', tooMany());
  };

  const hash = async (seat: Seat, password: string): Promise<string> => {
    const salt = randomBytes(saltBytes);
    const work = { password, salt: salt.toString('base64'), iterations, burn: 0 };
    return formatHash({ iterations, salt, hash: await wait(seat, work) });
  };

  const verify = async (seat: Seat, password: string, kept: string | null) => {
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
    const isSame = timingSafeEqual(await wait(seat, work), hash);
    return { matches: isSame && known !== null, isOutdated: made.iterations < iterations };
  };

  return {
    reserve: (projectId) => {
      if (isStopped) throw errors.unavailable('stopping');
      if (isFull(projectId)) makeRoom(projectId);
      const seat: Seat = {
        ...{ projectId, state: 'kept', waiting: null, isHashing: false, hasBegun: false },
        idleFrom: performance.now(),
      };
      seats.add(seat);
      return {
        hash: (password) => hash(seat, password),
        verify: (password, kept) => verify(seat, password, kept),
        release: () => {
          if (seat.state === 'kept') giveUp(seat, 'released', errors.unavailable('given back'));
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
      for (const seat of [...seats]) leave(seat, errors.unavailable('stopping'));
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
