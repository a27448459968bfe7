import { expect, it } from 'vitest';
import { createAdmin } from '../src/admin.ts';
import { createClient, RowhouseError } from '../src/index.ts';
import { collect, failureOf, useLive } from './live.ts';

const live = useLive();
const password = 'correct horse';
const open = () => createAdmin({ url: live.url, apiKey: live.projectKey, project: live.slug });

it('the admin client creates, finds, changes and deletes users', async () => {
  const { users } = open();
  const ada = await users.create({ email: 'Ada@example.com', role: 'editor', email_verified: true });
  expect(ada).toMatchObject({ role: 'editor', email_verified_at: expect.any(String) });
  await users.create({ email: 'xada@example.com', password }, { idempotencyKey: true });
  expect((await users.find(' ada@EXAMPLE.com'))?.id).toBe(ada.id);
  expect(await users.find('eve@example.com')).toBeNull();
  const page = await users.list({ limit: 1 });
  expect([page.users.length, page.has_more]).toEqual([1, true]);
  expect((await collect(users.list({ limit: 1 }))).map(({ email }) => email)).toEqual([
    'xada@example.com',
    'Ada@example.com',
  ]);
  expect(await users.update(ada.id, { banned: true, data: { a: 1 } })).toMatchObject({
    banned_at: expect.any(String),
    data: { a: 1 },
  });
  expect(await users.get(ada.id)).toMatchObject({ email: 'Ada@example.com' });
  expect(await users.delete(ada.id)).toMatchObject({ id: ada.id });
  const gone = await failureOf(users.get(ada.id));
  expect(gone).toMatchObject({ code: 'user_not_found' });
  // RowhouseError comes from another entry of the package, and yet it is the same class.
  expect(gone).toBeInstanceOf(RowhouseError);
});

it('codes recover a password and verify an address; a recovered user is signed in', async () => {
  const { users } = open();
  await users.create({ email: 'ben@example.com', password });
  const db = createClient({ url: live.url, apiKey: live.publishableKey, project: live.slug });
  const handed = await users.recover('ben@example.com');
  const { code } = handed as { code: string };
  const { user } = await db.recover({ code, password: 'another horse' });
  expect([user.email, (await db.user())?.id]).toEqual(['ben@example.com', user.id]);
  expect(await failureOf(db.recover({ code, password: 'a third horse' }))).toMatchObject({
    code: 'invalid_code',
  });
  const verification = (await users.verify('ben@example.com')) as { code: string };
  expect((await db.verify({ code: verification.code })).user.email_verified_at).toEqual(expect.any(String));
});

it('users change and delete themselves', async () => {
  const db = createClient({ url: live.url, apiKey: live.publishableKey, project: live.slug });
  expect(await failureOf(db.updateUser({ data: {} }))).toMatchObject({ status: 401 });
  const { user } = await db.signUp({ email: 'cora@example.com', password });
  expect(await db.updateUser({ data: { name: 'Cora' } })).toMatchObject({ data: { name: 'Cora' } });
  await db.updateUser({ password: 'a newer horse', current_password: password });
  expect(await failureOf(db.signIn({ email: user.email, password }))).toMatchObject({
    code: 'invalid_credentials',
  });
  await db.signIn({ email: user.email, password: 'a newer horse' });
  expect((await db.deleteUser()).id).toBe(user.id);
  expect([db.session, await db.user()]).toEqual([null, null]);
  expect(await open().users.find(user.email)).toBeNull();
});

it('sessions are listed and ended, and a key acts as a user for a while', async () => {
  const { users } = open();
  const db = createClient({ url: live.url, apiKey: live.projectKey, project: live.slug });
  const { user } = await db.signUp({ email: 'dora@example.com', password });
  const [session] = await users.sessions(user.id);
  await users.signOut(user.id, session?.id);
  expect(await users.sessions(user.id)).toEqual([]);
  const { token, acting } = await users.actAs(user.id, { expires_in: 60 });
  expect((await db.asUser(token).query('select auth.uid() as id')).rows).toEqual([{ id: user.id }]);
  expect((await users.acting({ limit: 1 }))[0]).toMatchObject({ id: acting.id, user: { email: user.email } });
  await users.endActing(acting.id);
  expect(await failureOf(db.asUser(token).query('select 1'))).toMatchObject({ status: 401 });
});

it('settings, usage, compaction and export of a project', async () => {
  const admin = open();
  expect(await admin.settings.update({ refuse_common_passwords: true })).toEqual(await admin.settings.get());
  const { usage, history } = await admin.usage({ points: 1, since: new Date(0) });
  expect([usage.status, history.length <= 1]).toEqual(['ready', true]);
  expect((await admin.compact()).status).toBe('done');
  expect((await admin.compaction())?.status).toBe('done');
  const dump = await collect(admin.export());
  expect(Buffer.concat(dump).subarray(0, 5).toString()).toBe('PGDMP');
  const weak = createAdmin({ url: live.url, apiKey: live.publishableKey, project: live.slug });
  expect(await failureOf(weak.usage())).toMatchObject({ code: 'forbidden' });
});
