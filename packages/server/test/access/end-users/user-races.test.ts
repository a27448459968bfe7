// What happens to users in the same moment. A row that a test has locked holds up those who come, in their order.
import { beforeAll, describe, expect, it } from 'vitest';
import { openDatabase } from '../../../src/postgres/admin/database.ts';
import { type Sql, sql } from '../../../src/postgres/sql.ts';
import { databaseOf } from '../../../src/servers/databases/names.ts';
import { type Answer, address, until, useTestService } from '../../support/helpers.ts';

const rowhouse = useTestService();
let shop: { slug: string; id: string; key: string };
let publishable: string;
beforeAll(async () => {
  shop = await rowhouse.project('Shop');
  const body = { name: 'browser', kind: 'publishable' };
  publishable = (await rowhouse.call('POST', `/projects/${shop.slug}/keys`, { body })).body.api_key;
});

const password = 'correct horse battery';
const better = 'staple of the better kind';
let count = 0;
type More = { key?: string; token?: string };
const auth = (method: string, path: string, body?: unknown, { key = shop.key, token }: More = {}) =>
  rowhouse.call(method, `/projects/${shop.slug}/auth/${path}`, {
    key,
    ...(body !== undefined && { body }),
    headers: { ...(token && { authorization: `Bearer ${token}` }) },
  });
const signUp = async () => {
  const email = `user${++count}@example.com`;
  const { body } = await auth('POST', 'signup', { email, password });
  return { email, id: body.user.id as string, token: body.session.access_token as string };
};
const signIn = (email: string, word = password, more: More = {}) =>
  auth('POST', 'signin', { email, password: word }, more);
const isAlive = async (token: string) => (await auth('GET', 'user', undefined, { token })).status === 200;

/** Each of `acts` begins when the one before it waits for what `lock` holds; then all go on, in that order. */
async function inTurn(lock: Sql, acts: (() => Promise<Answer>)[]): Promise<Answer[]> {
  const database = openDatabase({ ...address(), database: databaseOf(shop.id) }, { max: 2 });
  try {
    const begun = await database.transaction(async (inside) => {
      await inside.query(lock);
      const running: Promise<Answer>[] = [];
      for (const act of acts) {
        running.push(act());
        await until('the next one waits', async () => {
          const waiting = await database.query(sql`
            select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`);
          return waiting.length === running.length;
        });
      }
      return running;
    });
    return await Promise.all(begun);
  } finally {
    await database.end();
  }
}
const rowOf = (id: string) => sql`select 1 from auth.users where id = ${id} for update`;

describe('a new password', () => {
  it('is not overtaken by a sign-in with the old one', async () => {
    const { email, id, token } = await signUp();
    const change = { password: better, current_password: password };
    const [changed, late] = await inTurn(rowOf(id), [
      () => auth('PATCH', 'user', change, { token }),
      () => signIn(email),
    ]);
    expect(changed?.status).toBe(200);
    expect([late?.status, late?.body.error?.code]).toEqual([401, 'invalid_credentials']);
    expect(await isAlive(token)).toBe(true);
  });

  it('ends a session that began in the same moment', async () => {
    const { email, id, token } = await signUp();
    const change = { password: better, current_password: password };
    const [early, changed] = await inTurn(rowOf(id), [
      () => signIn(email),
      () => auth('PATCH', 'user', change, { token }),
    ]);
    expect([early?.status, changed?.status]).toEqual([200, 200]);
    expect(await isAlive(early?.body.session.access_token)).toBe(false);
    expect(await isAlive(token)).toBe(true);
  });

  it('is set once by two requests that know the old one', async () => {
    const { email, id, token } = await signUp();
    const to = (word: string) => () =>
      auth('PATCH', 'user', { password: word, current_password: password }, { token });
    const [first, second] = await inTurn(rowOf(id), [to(better), to('a third one for good measure')]);
    expect(first?.status).toBe(200);
    expect([second?.status, second?.body.error?.code]).toEqual([401, 'invalid_credentials']);
    expect((await signIn(email, better)).status).toBe(200);
  });

  it('by a code ends a session that began in the same moment', async () => {
    const { email, id } = await signUp();
    const { code } = (await auth('POST', 'recover', { email })).body;
    const [early, recovered] = await inTurn(rowOf(id), [
      () => signIn(email),
      () => auth('POST', 'recover', { code, password: better }),
    ]);
    expect([early?.status, recovered?.status]).toEqual([200, 200]);
    expect(await isAlive(early?.body.session.access_token)).toBe(false);
    expect(await isAlive(recovered?.body.session.access_token)).toBe(true);
  });

  it('is not set by a session that has ended meanwhile', async () => {
    const { id, token } = await signUp();
    const [banned, late] = await inTurn(rowOf(id), [
      () => auth('PATCH', `users/${id}`, { banned: true }),
      () => auth('PATCH', 'user', { data: { mine: true } }, { token }),
    ]);
    expect(banned?.status).toBe(200);
    expect([late?.status, late?.body.error?.code]).toEqual([401, 'invalid_token']);
  });
});

describe('a ban', () => {
  it('leaves no session that would come back when it is lifted', async () => {
    const { email, id } = await signUp();
    const [early, banned] = await inTurn(rowOf(id), [
      () => signIn(email),
      () => auth('PATCH', `users/${id}`, { banned: true }),
    ]);
    expect([early?.status, banned?.status]).toEqual([200, 200]);
    await auth('PATCH', `users/${id}`, { banned: false });
    expect(await isAlive(early?.body.session.access_token)).toBe(false);
  });
});

describe('one account from one address', () => {
  it('can sign in many times at once without waiting', async () => {
    const { email } = await signUp();
    for (let round = 0; round < 10; round++) {
      const answers = await Promise.all(
        Array.from({ length: 8 }, () => signIn(email, password, { key: publishable })),
      );
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    }
  });
});
