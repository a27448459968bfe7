// Places for hashing and their turns. To hold everything still, the process that hashes is stopped (SIGSTOP) for a while.
import { pbkdf2Sync } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import {
  type Hashing,
  openHashing,
  placesPerSlot,
  type Reservation,
} from '../../../src/access/passwords/hashing.ts';
import { formatHash, parseHash } from '../../../src/access/passwords/passwords.ts';
import { until } from '../../support/helpers.ts';
import { hashProcessesOf, isRunning } from '../../support/process.ts';

/** Few: what is looked at here is who hashes, and when. */
const iterations = 100;
const refusal = {
  code: 'overloaded',
  status: 429,
  retryAfterS: expect.toSatisfy((seconds: number) => seconds === 1 || seconds === 2),
};

const slowness = {
  code: 'unavailable',
  status: 503,
  retryAfterS: expect.toSatisfy((seconds: number) => seconds >= 2 && seconds <= 5),
};

type Opened = Hashing & { reported: unknown[] };

function open(slots: number, rounds = iterations, withinMs = 12_000): Opened {
  const reported: unknown[] = [];
  const onError = (error: unknown) => reported.push(error);
  const hashing = openHashing({ iterations: rounds, slots, withinMs, onError });
  onTestFinished(async () => {
    await hashing.stop();
    expect(hashProcessesOf(process.pid)).toEqual([]);
  });
  return { ...hashing, reported };
}

/** With its process stopped: whatever begins to hash does not come to its end before `goOn`. */
async function openStill(slots: number, withinMs?: number) {
  const hashing = open(slots, iterations, withinMs);
  const first = hashing.reserve('first');
  await first.hash('password');
  first.release();
  const [pid = 0] = hashProcessesOf(process.pid);
  process.kill(pid, 'SIGSTOP');
  return { ...hashing, pid, goOn: () => process.kill(pid, 'SIGCONT') };
}

/** By crypt(3) of libxcrypt: of 'correct hörse', and of 72 times x. */
const bcryptHashes = {
  made: [
    '$2a$04$zyxwvutsrqponmlkjihgfuMJ1jZFqgSu9KArtKg1SKq6y7Z.ZB9ay',
    '$2b$06$abcdefghijklmnopqrstuuDPIcsDCnAQILv/Diau9vod0nDnCtjAS',
    '$2y$10$ABCDEFGHIJKLMNOPQRSTUu.A8cI9Bquvl1lz85foovDGPjjLXHDka',
  ],
  long: '$2b$04$ABCDEFGHIJKLMNOPQRSTUuuPMGVdMuE6yqNwaDAANxW.7cK/ZbrX6',
};

const many = (hashing: Hashing, projectId: string, count: number): Reservation[] =>
  Array.from({ length: count }, () => hashing.reserve(projectId));

/** What became of it, without a complaint that nobody listened. */
function follow(promise: Promise<unknown>) {
  const followed = { outcome: 'pending' as string, promise };
  promise.then(
    () => {
      followed.outcome = 'done';
    },
    (error) => {
      followed.outcome = error.code;
    },
  );
  return followed;
}
const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('hashing passwords', () => {
  it('stores a password in the documented form, with a new salt each time', async () => {
    const hashing = open(2);
    const place = hashing.reserve('a');
    const [one, other] = [await place.hash('correct horse'), await place.hash('correct horse')];
    expect(one).not.toBe(other);
    const { salt, hash, ...rest } = parseHash(one) ?? expect.fail(one);
    expect(rest).toEqual({ iterations });
    expect(hash.equals(pbkdf2Sync('correct horse', salt, iterations, 32, 'sha256'))).toBe(true);
    place.release();
    place.release();
  });

  it('accepts the right password and no other', async () => {
    const hashing = open(2);
    const place = hashing.reserve('a');
    const kept = await place.hash('correct hörse');
    expect(await place.verify('correct hörse', kept)).toEqual({ matches: true, isOutdated: false });
    for (const wrong of ['correct horse', 'correct hörse ', 'Correct hörse', 'correct ho\u0308rse', ''])
      expect(await place.verify(wrong, kept)).toEqual({ matches: false, isOutdated: false });
    expect(await place.verify('correct hörse', null)).toEqual({ matches: false, isOutdated: false });
    expect(hashing.reported).toEqual([]);
  });

  it('verifies a hash that another program made', async () => {
    // hashlib.pbkdf2_hmac('sha256', b'correct horse', bytes(range(16)), 600000) in Python.
    const kept = '$pbkdf2-sha256$i=600000$AAECAwQFBgcICQoLDA0ODw$lqWQTC4IyNpCMF28xdfPGOrSY21J9ZUmtgbyZpYoFHM';
    const place = open(1).reserve('a');
    expect(await place.verify('correct horse', kept)).toEqual({ matches: true, isOutdated: false });
  });

  it('recognises hashes with fewer and with more iterations, and matches both', async () => {
    const salt = Buffer.alloc(16, 7);
    const made = (count: number) =>
      formatHash({ iterations: count, salt, hash: pbkdf2Sync('correct horse', salt, count, 32, 'sha256') });
    const place = open(1).reserve('a');
    for (const [count, isOutdated] of [
      [1, true],
      [iterations - 1, true],
      [iterations, false],
      [iterations + 1, false],
    ] as const) {
      expect(await place.verify('correct horse', made(count))).toEqual({ matches: true, isOutdated });
      expect(await place.verify('wrong horse', made(count))).toEqual({ matches: false, isOutdated });
    }
  });

  it('takes about as long for an unknown user and for an old hash', async () => {
    const rounds = 200_000;
    const place = open(1, rounds).reserve('a');
    const salt = Buffer.alloc(16, 7);
    const old = formatHash({ iterations: 1, salt, hash: pbkdf2Sync('correct horse', salt, 1, 32, 'sha256') });
    const kept = await place.hash('correct horse');
    const time = async (hash: string | null) => {
      const before = performance.now();
      await place.verify('correct horse', hash);
      return performance.now() - before;
    };
    // The quickest of some: whoever yields to all others may wait for long on a busy machine.
    let usual = Number.POSITIVE_INFINITY;
    for (let turn = 0; turn < 5; turn++) usual = Math.min(usual, await time(kept));
    for (const hash of [null, old, 'not a hash']) expect(await time(hash)).toBeGreaterThan(usual / 10);
  });

  it('verifies hashes of bcrypt, which are outdated, and none that would take long', async () => {
    const hashing = open(2);
    const place = hashing.reserve('a');
    for (const hash of bcryptHashes.made) {
      expect([hash, await place.verify('correct hörse', hash)]).toEqual([
        hash,
        { matches: true, isOutdated: true },
      ]);
      expect(await place.verify('correct horse', hash)).toEqual({ matches: false, isOutdated: true });
    }
    // Bcrypt reads 72 bytes.
    for (const [length, matches] of [
      [71, false],
      [72, true],
      [73, true],
    ] as const)
      expect(await place.verify('x'.repeat(length), bcryptHashes.long)).toEqual({
        matches,
        isOutdated: true,
      });
    expect(hashing.reported).toEqual([]);
    const began = performance.now();
    const [hash = ''] = bcryptHashes.made;
    for (const bad of ['$2a$31', '$2a$13', '$2a$03', '$2x$04', '$2$04'])
      expect(await place.verify('correct hörse', bad + hash.slice(6))).toMatchObject({ matches: false });
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(hashing.reported.length).toBe(5);
  });

  it('does all of its usual work for a hash of bcrypt, too', async () => {
    const rounds = 200_000;
    const place = open(2, rounds).reserve('a');
    const quickest = async (act: () => unknown) => {
      let ms = Number.POSITIVE_INFINITY;
      for (let turn = 0; turn < 10; turn++) {
        const before = performance.now();
        await act();
        ms = Math.min(ms, performance.now() - before);
      }
      return ms;
    };
    // In short pieces, which a busy machine interrupts less often.
    const work = 100 * (await quickest(() => pbkdf2Sync('password', 'salt', rounds / 100, 32, 'sha256')));
    const [hash = ''] = bcryptHashes.made;
    // Bcrypt of cost 4 by itself takes less than a tenth of it.
    expect(await quickest(() => place.verify('correct horse', hash))).toBeGreaterThan(work / 2);
  });

  it('matches nothing against an unreadable hash, and reports it', async () => {
    const hashing = open(1);
    const place = hashing.reserve('a');
    expect(await place.verify('password', 'password')).toEqual({ matches: false, isOutdated: false });
    expect(hashing.reported).toMatchObject([{ message: 'A kept password hash cannot be read.' }]);
  });

  it('does not use the event loop or the thread pool of the service', async () => {
    const hashing = open(4, 300_000);
    const places = many(hashing, 'a', 12);
    const hashes = places.map((place) => follow(place.hash('password')));
    let turns = 0;
    while (hashing.counts().running > 0) {
      await readFile(new URL(import.meta.url));
      turns++;
    }
    await Promise.allSettled(hashes.map(({ promise }) => promise));
    // Behind hashes in a pool of four, it would read once for every round of them.
    expect(turns).toBeGreaterThan(30);
  });
});

describe('places in the hashing queue', () => {
  it('are as many as have their turn before they give up, for each slot', () => {
    // The usual number, one and a half, five and fifty times as many.
    expect([600_000, 900_000, 3_000_000, 10_000_000].map(placesPerSlot)).toEqual([12, 8, 2, 1]);
    expect([100, 100_000].map(placesPerSlot)).toEqual([12, 12]);
  });

  it('are twelve per slot besides the running ones; then comes 429 with Retry-After', async () => {
    const hashing = await openStill(2);
    const places = many(hashing, 'a', 24);
    expect(() => hashing.reserve('a')).toThrow(expect.objectContaining(refusal));
    const hashes = places.map((place) => place.hash('password'));
    expect(hashing.counts()).toEqual({ running: 2, waiting: 22 });
    const two = many(hashing, 'a', 2);
    expect(() => hashing.reserve('a')).toThrow(expect.objectContaining(refusal));
    hashing.goOn();
    expect(new Set(await Promise.all(hashes)).size).toBe(24);
    expect(hashing.counts()).toEqual({ running: 0, waiting: 0 });
    // Only what is given back is free again.
    expect(() => hashing.reserve('a')).toThrow(expect.objectContaining(refusal));
    for (const place of [...places, ...two, ...places]) place.release();
    for (const place of many(hashing, 'a', 24)) place.release();
  });

  it('wait at most five seconds for a slot', async () => {
    const hashing = await openStill(1);
    const before = performance.now();
    const [first, ...flood] = many(hashing, 'a', 7).map((place) => place.hash('password'));
    const [one, other] = many(hashing, 'b', 2).map((place) => place.hash('password'));
    await Promise.all([
      // Many of its own are ahead of these.
      ...flood.slice(3).map((hash) => expect(hash).rejects.toMatchObject(refusal)),
      // The service is slow.
      ...flood.slice(0, 3).map((hash) => expect(hash).rejects.toMatchObject(slowness)),
      expect(one).rejects.toMatchObject(slowness),
      expect(other).rejects.toMatchObject(slowness),
    ]);
    expect(performance.now() - before).toBeGreaterThan(4_900);
    expect(hashing.counts()).toEqual({ running: 1, waiting: 0 });
    hashing.goOn();
    expect(parseHash((await first) ?? '')).not.toBeNull();
    expect(await hashing.reserve('a').hash('password')).toContain('$pbkdf2');
  });

  it('end with 503 when the hash takes too long, and nothing begins afterwards', async () => {
    const hashing = await openStill(1, 400);
    const [place, next] = many(hashing, 'a', 2) as [Reservation, Reservation];
    const error = await place.hash('password').catch((thrown) => thrown);
    expect(error).toMatchObject(slowness);
    expect(error.message).toBe('Signing in takes too long because the service is busy.');
    // Its time began with the reservation.
    await expect(next.hash('password')).rejects.toMatchObject(slowness);
    // The process still computes the first one: its slot is taken until it answers.
    expect(hashing.counts()).toEqual({ running: 1, waiting: 0 });
    for (const one of [place, next]) one.release();
    hashing.goOn();
    await until('the slot is free', async () => hashing.counts().running === 0);
    expect(await hashing.reserve('a').hash('password')).toContain('$pbkdf2');
    expect(hashing.reported).toEqual([]);
  });

  it('are served project by project, and in order of arrival within a project', async () => {
    const hashing = await openStill(1);
    const order: string[] = [];
    const ask = (projectId: string, count: number) =>
      many(hashing, projectId, count).map((place, n) =>
        place.hash('password').then(() => order.push(`${projectId}${n}`)),
      );
    const all = [...ask('a', 4), ...ask('b', 2), ...ask('c', 1)];
    hashing.goOn();
    await Promise.all(all);
    expect(order).toEqual(['a0', 'b0', 'c0', 'a1', 'b1', 'a2', 'a3']);
  });

  it('of the project with the most are dropped, newest first, to admit another project', async () => {
    const hashing = await openStill(1);
    const flood = many(hashing, 'flood', 12).map((place) => follow(place.hash('password')));
    expect(hashing.counts()).toEqual({ running: 1, waiting: 11 });
    const late = hashing.reserve('flood');
    expect(() => hashing.reserve('flood')).toThrow(expect.objectContaining(refusal));

    // The newest has not asked for anything yet: it is told when it does.
    const calm = hashing.reserve('calm');
    await expect(late.verify('password', null)).rejects.toMatchObject(refusal);
    late.release();
    // The next one waits: it is told at once.
    const other = hashing.reserve('other');
    await settled();
    expect(flood.map(({ outcome }) => outcome)).toEqual([...Array(11).fill('pending'), 'overloaded']);
    expect(hashing.counts()).toEqual({ running: 1, waiting: 10 });

    hashing.goOn();
    expect(await calm.hash('password')).toContain('$pbkdf2');
    expect(await other.hash('password')).toContain('$pbkdf2');
    await Promise.all(flood.slice(0, 11).map(({ promise }) => promise));
  });

  it('are given to other projects until all have equally many', async () => {
    const hashing = await openStill(1);
    many(hashing, 'a', 12);
    const b = many(hashing, 'b', 6);
    for (const projectId of ['a', 'b'])
      expect(() => hashing.reserve(projectId)).toThrow(expect.objectContaining(refusal));
    const c = many(hashing, 'c', 4);
    for (const projectId of ['a', 'b', 'c'])
      expect(() => hashing.reserve(projectId)).toThrow(expect.objectContaining(refusal));
    // Those who held fewest when they came are all still there.
    for (const place of c) follow(place.hash('password'));
    follow((b[0] as Reservation).hash('password'));
    expect(hashing.counts()).toEqual({ running: 1, waiting: 4 });
    hashing.goOn();
  });

  it('of projects with locked users do not keep other projects out for long', async () => {
    const hashing = open(1);
    // One each: nobody is greedy. None of them ever gets as far as its password.
    const stuck = Array.from({ length: 12 }, (_, n) => hashing.reserve(`locked ${n}`));
    expect(() => hashing.reserve('other')).toThrow(expect.objectContaining(refusal));
    const place = await until('there is room', async () => {
      try {
        return hashing.reserve('other');
      } catch {
        return false;
      }
    });
    expect(await place.hash('password')).toMatch(/^\$pbkdf2/);
    for (const one of [...stuck, place]) one.release();
    // With many of its own a project still keeps itself out.
    many(hashing, 'locked', 12);
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(() => hashing.reserve('locked')).toThrow(expect.objectContaining(refusal));
  });

  it('are not taken from a hash that has begun', async () => {
    const hashing = await openStill(1);
    const places = many(hashing, 'flood', 12);
    const first = places[0]?.hash('password');
    // Beside the one that hashes.
    places.push(hashing.reserve('flood'));
    const hashes = [first, ...places.slice(1).map((place) => place.hash('password'))];
    hashing.goOn();
    const kept = await Promise.all(hashes);
    process.kill(hashing.pid, 'SIGSTOP');
    const verified = places.map((place, n) => place.verify('password', kept[n] ?? null));
    expect(hashing.counts()).toEqual({ running: 1, waiting: 12 });
    expect(() => hashing.reserve('calm')).toThrow(expect.objectContaining(refusal));
    hashing.goOn();
    for (const outcome of await Promise.all(verified)) expect(outcome).toMatchObject({ matches: true });
  });

  it('are free again after they are given back, even while waiting or hashing', async () => {
    const hashing = await openStill(1);
    const [hashes, waits] = many(hashing, 'a', 2) as [Reservation, Reservation];
    const hash = hashes.hash('password');
    const waiting = follow(waits.hash('password'));
    waits.release();
    hashes.release();
    await settled();
    expect(waiting.outcome).toBe('unavailable');
    expect(hashing.counts()).toEqual({ running: 1, waiting: 0 });
    expect(many(hashing, 'a', 12).length).toBe(12);
    hashing.goOn();
    expect(parseHash(await hash)).not.toBeNull();
    await expect(hashes.hash('password')).rejects.toThrow('given back');
  });

  it('take one password at a time', async () => {
    const hashing = await openStill(1);
    const [busy, waits] = many(hashing, 'a', 2) as [Reservation, Reservation];
    const first = [busy.hash('password'), waits.hash('password')];
    for (const place of [busy, waits])
      await expect(place.hash('password')).rejects.toThrow('one password at a time');
    hashing.goOn();
    await Promise.all(first);
  });

  it('treat projects named like object properties as any other', async () => {
    const hashing = open(1);
    for (const projectId of ['__proto__', 'constructor', ''])
      expect(await hashing.reserve(projectId).hash('password')).toContain('$pbkdf2');
  });
});

describe('when the process that hashes dies', () => {
  it('running hashes fail with 503, and waiting ones go on', async () => {
    const hashing = await openStill(2);
    const hashes = many(hashing, 'a', 6).map((place) => place.hash('password'));
    const outcomes = Promise.allSettled(hashes);
    process.kill(hashing.pid, 'SIGKILL');
    const [one, two, ...others] = await outcomes;
    for (const lost of [one, two])
      expect(lost).toMatchObject({ status: 'rejected', reason: { code: 'unavailable', status: 503 } });
    for (const other of others) expect(other).toMatchObject({ status: 'fulfilled' });
    expect(hashing.reported.length).toBe(1);
    expect(hashProcessesOf(process.pid)).not.toContain(hashing.pid);
  });

  it('again and again, other requests do not notice', async () => {
    const hashing = open(1);
    for (let n = 0; n < 3; n++) {
      const place = hashing.reserve('a');
      expect(await place.hash('password')).toContain('$pbkdf2');
      place.release();
      const [pid = 0] = hashProcessesOf(process.pid);
      process.kill(pid, 'SIGKILL');
      await until('its end is known', async () => hashing.reported.length === n + 1);
    }
    expect(hashing.counts()).toEqual({ running: 0, waiting: 0 });
  });

  it('by a stop, all callers are told and no process is left', async () => {
    const hashing = await openStill(1);
    const places = many(hashing, 'a', 3);
    const hashes = places.map((place) => follow(place.hash('password')));
    await hashing.stop();
    await settled();
    expect(hashes.map(({ outcome }) => outcome)).toEqual(Array(3).fill('unavailable'));
    expect(() => hashing.reserve('a')).toThrow(expect.objectContaining({ status: 503 }));
    await expect((places[0] as Reservation).hash('password')).rejects.toMatchObject({ status: 503 });
    expect(hashing.counts()).toEqual({ running: 0, waiting: 0 });
    expect(isRunning(hashing.pid)).toBe(false);
    expect(hashing.reported).toEqual([]);
    await hashing.stop();
  });
});
