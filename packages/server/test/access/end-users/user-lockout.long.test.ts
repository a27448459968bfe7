// Strangers who guess at a password: they get no more guesses than the limits say, and its owner gets in all the same.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { deleteFullBuckets } from '../../../src/access/end-users/rate-limits.ts';
import { openDatabase } from '../../../src/postgres/admin/database.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { databaseOf } from '../../../src/servers/databases/names.ts';
import { inside, type TestProject } from '../../support/end-users.ts';
import {
  type Answer,
  address,
  openSecondProcess,
  type TestService,
  until,
  useTestService,
} from '../../support/helpers.ts';

const rowhouse = useTestService({ trustedProxies: ['127.0.0.1'] });
let shop: TestProject;
let neighbour: TestProject;
let pub: string;
let second: TestService;
beforeAll(async () => {
  shop = await rowhouse.project('Shop');
  neighbour = await rowhouse.project('Neighbour');
  const body = { name: 'browser', kind: 'publishable' };
  pub = (await rowhouse.call('POST', `/projects/${shop.slug}/keys`, { body })).body.api_key;
  second = await openSecondProcess(rowhouse, { trustedProxies: ['127.0.0.1'] });
});
afterAll(() => second.stop());

const password = 'correct horse battery';
const wrong = 'not the password';
const home = '203.0.113.7';
let made = 0;
const newEmail = () => `owner${++made}@example.com`;
/** `from`: with the publishable key, from this address; without one, by the application's server. */
type Way = { from?: string; on?: TestService; headers?: Record<string, string>; token?: string };
const auth = (
  method: string,
  path: string,
  body: unknown,
  { from, on = rowhouse, headers, token }: Way = {},
) =>
  on.call(method, `/projects/${shop.slug}/auth/${path}`, {
    key: from ? pub : shop.key,
    body,
    headers: {
      ...(from && { 'x-forwarded-for': from }),
      ...(token && { authorization: `Bearer ${token}` }),
      ...headers,
    },
  });
const signIn = (email: string, word: string, way: Way = {}) =>
  auth('POST', 'signin', { email, password: word }, way);
const signUp = async (way: Way = {}) => {
  const email = newEmail();
  const { status, body } = await auth('POST', 'signup', { email, password }, way);
  expect(status, JSON.stringify(body)).toBe(201);
  return { email, id: body.user.id as string, token: body.session.access_token as string };
};
/** As if so many seconds had passed. */
const pass = (seconds: number) =>
  inside(shop, sql`update auth.attempts set used_until = used_until - make_interval(secs => ${seconds})`);
const tried = (answers: Answer[]) => answers.filter(({ status }) => status === 401).length;
const addressOf = (n: number) => `198.51.${100 + Math.floor(n / 250)}.${(n % 250) + 1}`;
/** All that can be had at once without waiting. */
const lockOut = async (email: string, way: Way = {}) => {
  const answers: Answer[] = [];
  for (let n = 0; n < 14; n++) answers.push(await signIn(email, `${wrong} ${n}`, way));
  expect(answers.at(-1)?.status).toBe(429);
  return answers;
};

describe('one wrong password a minute, endlessly', () => {
  it('does not lock the owner out, with any key and from any address', async () => {
    const { email } = await signUp();
    await lockOut(email);
    for (let minute = 0; minute < 12; minute++) {
      await pass(60);
      expect((await signIn(email, wrong)).status, 'the attacker has the minute').toBe(401);
      const from = minute % 3 === 0 ? {} : { from: `192.0.2.${minute}` };
      const owner = await signIn(email, password, from);
      expect(owner.status, `minute ${minute}: ${JSON.stringify(owner.body)}`).toBe(200);
    }
  });

  it('or three a minute do not lock out an owner who retries when told', async () => {
    const { email } = await signUp();
    await lockOut(email);
    for (let minute = 0; minute < 5; minute++) {
      await pass(30);
      for (let n = 0; n < 3; n++) await signIn(email, wrong);
      const owner = await signIn(email, password);
      if (owner.status === 200) continue;
      const wait = Number(owner.headers['retry-after']);
      expect([owner.status, wait > 0 && wait <= 30]).toEqual([429, true]);
      await pass(wait);
      expect((await signIn(email, password)).status).toBe(200);
    }
  });
});

describe('a flood of wrong passwords', () => {
  it("from one address or many, on two processes, does not affect the owner's known address", async () => {
    const { email } = await signUp({ from: home });
    const flood = async (from: (n: number) => string) => {
      const answers: Answer[] = [];
      for (let group = 0; group < 10; group++)
        answers.push(
          ...(await Promise.all(
            Array.from({ length: 12 }, (_, n) =>
              signIn(email, `${wrong} ${group} ${n}`, {
                from: from(group * 12 + n),
                on: n % 2 ? rowhouse : second,
              }),
            ),
          )),
        );
      return answers;
    };
    for (const from of [() => '192.0.2.1', addressOf]) {
      await flood(from);
      expect((await signIn(email, password, { from: '192.0.2.99' })).status, 'elsewhere it has to wait').toBe(
        429,
      );
      for (let n = 0; n < 3; n++) expect((await signIn(email, password, { from: home })).status).toBe(200);
      // A typo at home is no reason to be locked out there.
      expect((await signIn(email, wrong, { from: home })).status).toBe(401);
      expect((await signIn(email, password, { from: home, on: second })).status).toBe(200);
    }
  });

  it('from few addresses does not use up the slow attempts', async () => {
    const { email } = await signUp();
    const attackers = [1, 2, 3].map((n) => `192.0.2.${n}`);
    for (const from of attackers) await lockOut(email, { from });
    // Half a minute each: the first use up what they have of it.
    for (let n = 0; n < 10; n++) {
      for (const from of attackers) await signIn(email, wrong, { from });
      await pass(30);
    }
    for (const from of attackers) await signIn(email, wrong, { from });
    await pass(30);
    for (const from of attackers) await signIn(email, wrong, { from });
    expect((await signIn(email, password, { from: '192.0.2.200' })).status).toBe(200);
  });

  it('gets no more guesses than the documented number, from however many addresses and processes', async () => {
    const { email } = await signUp({ from: home });
    const minutes = 20;
    let guesses = 0;
    for (let half = 0; half < 2 * minutes; half++) {
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, n) =>
          signIn(email, `${wrong} ${half} ${n}`, {
            from: addressOf(half * 10 + n),
            on: n % 2 ? rowhouse : second,
          }),
        ),
      );
      guesses += tried(answers);
      expect(answers.every(({ status }) => status === 401 || status === 429)).toBe(true);
      await pass(30);
    }
    // Ten at once, one a minute, one in half a minute: 10 + 1,440 + 2,880 a day. The clock itself goes on too.
    expect(guesses).toBeLessThanOrEqual(10 + minutes + 2 * minutes + 5);
    expect(guesses).toBeGreaterThan(minutes);
    expect((await signIn(email, password, { from: home })).status).toBe(200);
  });

  it("from a known address gets no more than that address's limit", async () => {
    const { email } = await signUp({ from: home });
    const answers = [];
    for (let n = 0; n < 40; n++) answers.push(await signIn(email, `${wrong} ${n}`, { from: home }));
    // Ten for the place, ten for the account, one on the slow way.
    expect(tried(answers)).toBe(21);
  });

  it('does not use the hashing queue, nor disturb neighbours and other users', async () => {
    const { email } = await signUp();
    const { email: other } = await signUp();
    await lockOut(email);
    const flood = Promise.all(Array.from({ length: 100 }, (_, n) => signIn(email, `${wrong} ${n}`)));
    const calm = await signIn(other, password, { on: second });
    expect(calm.status, JSON.stringify(calm.body)).toBe(200);
    const next = await rowhouse.call('POST', `/projects/${neighbour.slug}/auth/signup`, {
      key: neighbour.key,
      body: { email, password },
    });
    expect(next.status, JSON.stringify(next.body)).toBe(201);
    expect(tried(await flood)).toBeLessThanOrEqual(1);
    expect(rowhouse.service.deps.users.hashing.counts()).toEqual({ running: 0, waiting: 0 });
    expect((await signIn(other, password)).status).toBe(200);
  });
});

describe('an address whose limit others have used up', () => {
  it('still admits users who signed in there before', async () => {
    const shared = '192.0.2.77';
    const { email } = await signUp({ from: shared });
    const { email: stranger } = await signUp();
    for (let n = 0; n < 31; n++) await signIn(`nobody${n}@example.com`, wrong, { from: shared });
    expect((await signIn(stranger, password, { from: shared })).status).toBe(429);
    expect((await signIn(email, password, { from: shared })).status).toBe(200);
  });
});

describe('the memory of known addresses', () => {
  it('holds at most 20 addresses, /64 for IPv6, for half a year, across restarts', async () => {
    const { email, id } = await signUp({ from: '2001:db8:5:6::1' });
    await lockOut(email);
    expect((await signIn(email, password, { from: '2001:db8:5:6:ffff::2' })).status).toBe(200);
    expect((await signIn(email, password, { from: '2001:db8:5:7::1' })).status).toBe(429);
    const third = await openSecondProcess(rowhouse, { trustedProxies: ['127.0.0.1'] });
    try {
      const way = { on: third, from: '2001:db8:5:6::9' };
      expect((await signIn(email, password, way)).status).toBe(200);
      expect((await signIn(email, password, { on: third, from: '2001:db8:9:9::9' })).status).toBe(429);
    } finally {
      await third.stop();
    }
    await inside(
      shop,
      sql`update auth.places set seen_at = now() - interval '181 days' where user_id = ${id}`,
    );
    expect((await signIn(email, password, { from: '2001:db8:5:6::1' })).status).toBe(429);
    await inside(shop, sql`delete from auth.attempts`);
    for (let n = 0; n < 25; n++)
      expect((await signIn(email, password, { from: `2001:db8:aa:${n}::1` })).status).toBe(200);
    const places = await inside(shop, sql`select 1 from auth.places where user_id = ${id}`);
    expect(places).toHaveLength(20);
  });

  it('cannot be read by the project, and is deleted with the user', async () => {
    const { id } = await signUp({ from: home });
    const peek = await rowhouse.call('POST', `/projects/${shop.slug}/query`, {
      key: shop.key,
      body: { query: 'select * from auth.places' },
    });
    expect(peek.body.error.sql.state).toBe('42501');
    expect((await auth('DELETE', `users/${id}`, undefined)).status).toBe(200);
    expect(await inside(shop, sql`select 1 from auth.places where user_id = ${id}`)).toEqual([]);
  });

  it('is not extended by failed sign-ins', async () => {
    const { email } = await signUp({ from: home });
    for (let n = 0; n < 5; n++) await signIn(email, wrong, { from: '192.0.2.50' });
    await lockOut(email, { from: '192.0.2.51' });
    expect((await signIn(email, wrong, { from: '192.0.2.50' })).status).toBe(429);
  });

  it('does not reset the limits of others when the owner signs in', async () => {
    const { email } = await signUp({ from: home });
    await lockOut(email, { from: '192.0.2.60' });
    for (let n = 0; n < 5; n++) expect((await signIn(email, password, { from: home })).status).toBe(200);
    expect((await signIn(email, wrong, { from: '192.0.2.61' })).status).toBe(429);
  });
});

describe('an application with a server of its own', () => {
  it('can pass the address of its user', async () => {
    const at = (address: string) => ({ headers: { 'x-client-address': address } });
    const { email } = await signUp(at(home));
    await lockOut(email, at('192.0.2.10'));
    await lockOut(email);
    expect((await signIn(email, password, at('192.0.2.11'))).status).toBe(429);
    for (const same of [home, `::ffff:${home}`, `${home}:4711`])
      expect((await signIn(email, password, at(same))).status, same).toBe(200);
    for (const bad of ['', 'home', '1.2.3', '1.2.3.4, 5.6.7.8', '999.1.1.1', 'x'.repeat(1000)]) {
      const answer = await signIn(email, password, at(bad));
      expect([answer.status, answer.body.error.details?.[0]?.path], bad).toEqual([400, 'X-Client-Address']);
    }
  });

  it('cannot pass an address with a publishable key', async () => {
    const { email } = await signUp({ from: home });
    await lockOut(email, { from: '192.0.2.20' });
    const forged = { from: '192.0.2.21', headers: { 'x-client-address': home } };
    expect((await signIn(email, password, forged)).status).toBe(429);
  });
});

describe('a new password', () => {
  it('by recovery lifts the lockout, and makes its address known', async () => {
    const { email } = await signUp();
    await lockOut(email);
    const there = { from: '192.0.2.30' };
    expect((await signIn(email, password, there)).status).toBe(429);
    const { code } = (await auth('POST', 'recover', { email })).body;
    const fresh = 'another horse battery';
    const recovered = await auth('POST', 'recover', { code, password: fresh }, there);
    expect([recovered.status, Boolean(recovered.body.session)]).toEqual([200, true]);
    expect((await signIn(email, fresh)).status, 'from anywhere').toBe(200);
    await lockOut(email);
    expect((await signIn(email, fresh, there)).status, 'and here for good').toBe(200);
  });

  it('can be set by a signed-in user during a lockout', async () => {
    const { email, token } = await signUp();
    await lockOut(email);
    const fresh = 'another horse battery';
    const change = await auth('PATCH', 'user', { password: fresh, current_password: password }, { token });
    expect(change.status, JSON.stringify(change.body)).toBe(200);
    expect((await signIn(email, fresh)).status).toBe(200);
  });

  it('by an administrator lifts the lockout', async () => {
    const { email, id } = await signUp();
    await lockOut(email);
    const fresh = 'another horse battery';
    expect((await auth('PATCH', `users/${id}`, { password: fresh })).status).toBe(200);
    expect((await signIn(email, fresh)).status).toBe(200);
  });
});

describe('an e-mail address without a user', () => {
  it('is answered like one with a user, attempt by attempt', async () => {
    const { email } = await signUp({ from: home });
    const series = async (one: string) => {
      const seen: unknown[] = [];
      for (let n = 0; n < 13; n++) {
        const { status, body, headers } = await signIn(one, wrong, { from: addressOf(n) });
        seen.push([status, body.error.code, body.error.message, Number(headers['retry-after'] ?? 0) > 0]);
      }
      await pass(30);
      for (const from of ['192.0.2.40', '192.0.2.40', '192.0.2.41'])
        seen.push((await signIn(one, wrong, { from })).status);
      await pass(3_600);
      await inside(shop, sql`delete from auth.attempts`);
      return seen;
    };
    expect(await series('nobody@example.com')).toEqual(await series(email));
  });

  it('takes as long as one with a user, in slow attempts', async () => {
    const { email } = await signUp();
    const times: Record<string, number[]> = { [email]: [], 'no.one@example.com': [] };
    for (const one of Object.keys(times)) await lockOut(one);
    for (let n = 0; n < 15; n++)
      for (const [one, list] of Object.entries(times)) {
        await pass(30);
        const before = performance.now();
        await signIn(one, wrong);
        list.push(performance.now() - before);
      }
    const [known, unknown] = Object.values(times).map((list) => list.sort((a, b) => a - b)[7] as number);
    expect((known as number) / (unknown as number)).toBeGreaterThan(0.2);
    expect((known as number) / (unknown as number)).toBeLessThan(5);
  });
});

it('an expired limit is removed, and never one that was just used again', async () => {
  const { email } = await signUp();
  await lockOut(email);
  await pass(3_600);
  const database = openDatabase({ ...address(), database: databaseOf(shop.id) }, { max: 3 });
  try {
    const tidying = await database.transaction(async (attempt) => {
      await attempt.query(sql`update auth.attempts set used_until = now() + interval '30 s'`);
      const running = database.query(sql.script(deleteFullBuckets));
      await until('the deletion waits', async () => {
        const waiting = await database.query(sql`
          select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`);
        return waiting.length > 0;
      });
      return { running };
    });
    await tidying.running;
    expect((await database.query(sql`select 1 from auth.attempts`)).length).toBeGreaterThan(0);
  } finally {
    await database.end();
  }
});
