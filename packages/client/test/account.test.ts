import { expect, it } from 'vitest';
import { createAccountClient, createClient } from '../src/index.ts';
import { collect, failureOf, useLive } from './live.ts';

const live = useLive();

it('the account client manages projects', async () => {
  const account = createAccountClient({ url: live.url, apiKey: live.rowhouse.accountKey });
  const { project, api_key } = await account.projects.create({ name: 'My Shop', limit_mb: 64 });
  expect(project).toMatchObject({ slug: 'my-shop', name: 'My Shop', limit_mb: 64, status: 'ready' });
  const db = createClient({ url: live.url, apiKey: api_key, project: project.slug });
  expect((await db.query('select 1 as one')).rows).toEqual([{ one: 1 }]);

  expect(await account.projects.get('my-shop')).toMatchObject({ id: project.id });
  expect(await account.projects.update('my-shop', { name: 'Shop', limit_mb: 128 })).toMatchObject({
    limit_mb: 128,
  });
  const { url, user, password } = await account.connection('my-shop');
  expect(url).toContain('postgres://');
  expect([user, password]).toEqual([expect.any(String), expect.any(String)]);

  expect(await account.projects.delete('my-shop')).toMatchObject({ status: 'deleted' });
  expect(await failureOf(db.query('select 1'))).toMatchObject({ code: 'invalid_api_key' });
  expect((await account.projects.list({ status: 'deleted' })).projects).toHaveLength(1);
  expect(await account.projects.restore('my-shop')).toMatchObject({ status: 'ready' });
});

it('the account client lists all projects, page by page', async () => {
  const account = createAccountClient({ url: live.url, apiKey: live.rowhouse.accountKey });
  for (const name of ['One', 'Two', 'Three'])
    await account.projects.create({ name }, { idempotencyKey: true });
  const page = await account.projects.list({ limit: 2 });
  expect([page.projects.map(({ slug }) => slug), page.has_more]).toEqual([['three', 'two'], true]);
  const slugs = (await collect(account.projects.list({ limit: 2 }))).map(({ slug }) => slug);
  expect(slugs.slice(0, 3)).toEqual(['three', 'two', 'one']);
  expect(slugs).toContain(live.slug);
  const own = createAccountClient({ url: `${live.url}/api/dbaas/v2/`, apiKey: live.projectKey });
  expect((await own.projects.list()).projects.map(({ slug }) => slug)).toEqual([live.slug]);
});

it('the account client manages keys', async () => {
  const { keys } = createAccountClient({ url: live.url, apiKey: live.rowhouse.accountKey });
  const { key, api_key } = await keys.issue(live.slug, {
    name: 'reports',
    scopes: ['query:read'],
    expires_at: new Date(Date.now() + 3_600_000),
  });
  const reports = createClient({ url: live.url, apiKey: api_key, project: live.slug });
  expect((await reports.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  expect(await failureOf(reports.table('x').insert({}))).toMatchObject({ code: 'forbidden', status: 403 });
  expect((await keys.list(live.slug)).map(({ name }) => name)).toContain('reports');
  expect(await keys.revoke(live.slug, key.id)).toMatchObject({ status: 'revoked' });

  const rotated = await keys.rotate(live.slug, { grace_seconds: 60 });
  expect(rotated.previous.status).toBe('rotated');
  const db = createClient({ url: live.url, apiKey: rotated.api_key, project: live.slug });
  expect((await db.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
});
