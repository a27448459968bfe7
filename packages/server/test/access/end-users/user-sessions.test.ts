// A user's sessions, seen and ended by a key that may manage the project.
import { SignedOutResponse, UserSessionsResponse } from '@rowhouse/api';
import { Compile } from 'typebox/compile';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { inside, type TestProject } from '../../support/end-users.ts';
import { useTestService } from '../../support/helpers.ts';

const rowhouse = useTestService();
let mine: TestProject;
let count = 0;

const auth = (method: string, path: string, body?: unknown, { key = mine.key, token = '' } = {}) =>
  rowhouse.call(method, `/projects/${mine.slug}/auth/${path}`, {
    key,
    ...(body !== undefined && { body }),
    ...(token && { headers: { authorization: `Bearer ${token}` } }),
  });
const password = 'correct horse battery';
const signUp = async () => {
  const email = `user${++count}@example.com`;
  const { status, body } = await auth('POST', 'signup', { email, password });
  expect(status, JSON.stringify(body)).toBe(201);
  return { email, id: body.user.id as string, session: body.session };
};
const signIn = async (email: string) => (await auth('POST', 'signin', { email, password })).body.session;
const sidOf = (token: string): string =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()).sid;
const sessionsOf = async (id: string) => {
  const { status, body } = await auth('GET', `users/${id}/sessions`);
  expect(status, JSON.stringify(body)).toBe(200);
  expect(Compile(UserSessionsResponse).Check(body)).toBe(true);
  return body.sessions as UserSessionsResponse['sessions'];
};
const statusOf = async (token: string) => (await auth('GET', 'user', undefined, { token })).status;
const code = ({ status, body }: { status: number; body: { error?: { code: string } } }) => [
  status,
  body.error?.code,
];

beforeAll(async () => {
  mine = await rowhouse.project('Sessions');
});

describe("a user's sessions", () => {
  it('are listed newest first, without those that have ended and without their tokens', async () => {
    const user = await signUp();
    const second = await signIn(user.email);
    const gone = await signIn(user.email);
    await inside(
      mine,
      sql`update auth.sessions set expires_at = now() - interval '1 s' where id = ${sidOf(gone.access_token)}`,
    );
    const sessions = await sessionsOf(user.id);
    expect(sessions.map(({ id }) => id)).toEqual([
      sidOf(second.access_token),
      sidOf(user.session.access_token),
    ]);
    expect(sessions.every(({ is_acting }) => !is_acting)).toBe(true);
    expect(Date.parse(sessions[0]?.expires_at ?? '')).toBeGreaterThan(Date.now());
    const bare = (await auth('POST', 'users', { email: `user${++count}@example.com` })).body.user;
    expect(await sessionsOf(bare.id)).toEqual([]);
  });

  it('end one at a time: its tokens stop working at once, and others go on', async () => {
    const user = await signUp();
    const second = await signIn(user.email);
    const sid = sidOf(user.session.access_token);
    const ended = await auth('DELETE', `users/${user.id}/sessions/${sid}`);
    expect([ended.status, ended.body.ended]).toEqual([200, 1]);
    expect(Compile(SignedOutResponse).Check(ended.body)).toBe(true);
    expect(await statusOf(user.session.access_token)).toBe(401);
    const again = await auth('POST', 'refresh', { refresh_token: user.session.refresh_token });
    expect(code(again)).toEqual([401, 'invalid_token']);
    expect(await statusOf(second.access_token)).toBe(200);
    expect(code(await auth('DELETE', `users/${user.id}/sessions/${sid}`))).toEqual([
      404,
      'session_not_found',
    ]);
  });

  it('end all at once, and the user can sign in again', async () => {
    const user = await signUp();
    const other = await signUp();
    const second = await signIn(user.email);
    const ended = await auth('DELETE', `users/${user.id}/sessions`);
    expect([ended.status, ended.body.ended]).toEqual([200, 2]);
    expect(await statusOf(user.session.access_token)).toBe(401);
    expect(await statusOf(second.access_token)).toBe(401);
    expect(await statusOf(other.session.access_token)).toBe(200);
    expect(await statusOf((await signIn(user.email)).access_token)).toBe(200);
  });

  it('include those of a key that acts as the user, and ending one is recorded', async () => {
    const user = await signUp();
    const acting = (await auth('POST', `users/${user.id}/act-as`, {})).body;
    const sessions = await sessionsOf(user.id);
    expect(sessions.map(({ id, is_acting }) => [id, is_acting])).toEqual([
      [acting.acting.id, true],
      [sidOf(user.session.access_token), false],
    ]);
    expect((await auth('DELETE', `users/${user.id}/sessions/${acting.acting.id}`)).status).toBe(200);
    const refused = await rowhouse.call('POST', `/projects/${mine.slug}/query`, {
      key: mine.key,
      headers: { authorization: `Bearer ${acting.token}` },
      body: { query: 'select 1' },
    });
    expect(code(refused)).toEqual([401, 'invalid_token']);
    const [recorded] = (await auth('GET', 'act-as?limit=1')).body.acting;
    expect([recorded.id, recorded.ended_at]).toEqual([acting.acting.id, expect.any(String)]);
  });

  it('belong to their user: an id of another user or project ends nothing', async () => {
    const [ann, ben] = [await signUp(), await signUp()];
    const sid = sidOf(ann.session.access_token);
    expect(code(await auth('DELETE', `users/${ben.id}/sessions/${sid}`))).toEqual([404, 'session_not_found']);
    const other = await rowhouse.project('Elsewhere');
    const there = (path: string, method = 'DELETE') =>
      rowhouse.call(method, `/projects/${other.slug}/auth/users/${path}`, { key: other.key });
    for (const path of [`${ann.id}/sessions`, `${ann.id}/sessions/${sid}`])
      expect(code(await there(path))).toEqual([404, 'user_not_found']);
    expect(code(await there(`${ann.id}/sessions`, 'GET'))).toEqual([404, 'user_not_found']);
    expect(await statusOf(ann.session.access_token)).toBe(200);
  });

  it('need the scope manage, and ids that are none are not found', async () => {
    const user = await signUp();
    const issued = await rowhouse.call('POST', `/projects/${mine.slug}/keys`, {
      body: { name: 'browser', kind: 'publishable' },
    });
    const key = issued.body.api_key as string;
    const path = `users/${user.id}/sessions`;
    for (const [method, place] of [
      ['GET', path],
      ['DELETE', path],
      ['DELETE', `${path}/${sidOf(user.session.access_token)}`],
    ] as const)
      expect(code(await auth(method, place, undefined, { key }))).toEqual([403, 'forbidden']);
    expect(code(await auth('GET', 'users/none/sessions'))).toEqual([404, 'user_not_found']);
    expect(code(await auth('DELETE', 'users/none/sessions'))).toEqual([404, 'user_not_found']);
    expect(code(await auth('DELETE', `${path}/none`))).toEqual([404, 'session_not_found']);
    expect(await statusOf(user.session.access_token)).toBe(200);
  });
});
