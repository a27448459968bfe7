// The keys that a member issued: who sees whose they are, and what becomes of them when the member is removed.
import { describe, expect, it } from 'vitest';
import { type Sql, sql } from '../../src/postgres/sql.ts';
import { listening, outcome, Page } from '../support/console-page.ts';
import { api, openSecondProcess, soon, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ passwordIterations: 1_000 });
const password = 'violet anchor seven maple';

const call = (key: string, method: string, path: string, body?: unknown) =>
  rowhouse.call(method, api + path, { key, ...(body !== undefined && { body }) });
const works = async (key: string) => (await call(key, 'GET', '/projects')).status === 200;
const openAccount = async (name: string): Promise<string> =>
  (await call(rowhouse.operatorKey, 'POST', '/accounts', { name })).body.api_key;
/** A member of the account of this key, who has signed in. */
const join = async (key: string, email: string, role: string) => {
  const invited = await call(key, 'POST', '/account/invitations', { email, role });
  const page = new Page(await listening(rowhouse));
  const accepted = await page.call('POST', '/console/invitation/accept', {
    body: { code: String(invited.body.link).split('#invitation=')[1], password },
  });
  expect(accepted.status, accepted.text).toBe(200);
  page.token = accepted.body.token;
  return { page, id: accepted.body.person.id as string };
};
const issue = async (page: Page, path: string, body: object) => {
  const issued = await page.call('POST', path, { body });
  expect(issued.status, issued.text).toBe(201);
  return issued.body as { api_key: string; key: { id: string } };
};
/** An admin with an account key, a key that was issued with that one, a scoped key, and a project. */
const openTeam = async (name: string) => {
  const key = await openAccount(name);
  const slug = name.toLowerCase();
  const email = `${slug}@example.com`;
  const admin = await join(key, email, 'admin');
  const own = await issue(admin.page, '/account/keys', { name: 'ci', role: 'admin' });
  const further = (await call(own.api_key, 'POST', '/account/keys', { name: 'further', role: 'viewer' }))
    .body;
  const made = await admin.page.call('POST', '/projects', { body: { name, slug } });
  expect(made.status, made.text).toBe(201);
  const scoped = await issue(admin.page, `/projects/${slug}/keys`, { name: 'app', scopes: ['query'] });
  return { key, slug, email, admin, own, further, scoped, projectKey: made.body.api_key as string };
};

describe('a key', () => {
  it('names the person who issued it, also with another key, to people and account keys only', async () => {
    const { key, slug, email, admin, own, further, scoped, projectKey } = await openTeam('Named');
    const issuedBy = { id: admin.id, email };
    const { keys: ofAccount } = (await call(key, 'GET', '/account/keys')).body;
    const issuers = ofAccount.map((one: { id: string; issued_by: unknown }) => [one.id, one.issued_by]);
    expect(issuers).toEqual([
      [expect.any(String), null],
      [own.key.id, issuedBy],
      [further.key.id, issuedBy],
    ]);
    const { keys } = (await call(key, 'GET', `/projects/${slug}/keys`)).body;
    expect(keys.map((one: { issued_by: unknown }) => one.issued_by)).toEqual([issuedBy, issuedBy]);
    const seenByProgram = (await call(projectKey, 'GET', `/projects/${slug}/keys`)).body.keys;
    expect(seenByProgram.map((one: { issued_by: unknown }) => one.issued_by)).toEqual([null, null]);
    const rotated = await admin.page.call('POST', `/projects/${slug}/keys/rotate`, { body: {} });
    expect([rotated.body.key.issued_by, rotated.body.previous.status]).toEqual([issuedBy, 'rotated']);
    expect(scoped.key).toMatchObject({ issued_by: issuedBy });
  });
});

describe('a member who is removed', () => {
  it('leaves keys that work, and the response names them', async () => {
    const { key, slug, admin, own, further, scoped } = await openTeam('Kept');
    const listed = (await call(key, 'GET', `/account/members/${admin.id}/keys`)).body.keys;
    const removed = await call(key, 'DELETE', `/account/members/${admin.id}`);
    const { keys } = removed.body;
    expect([removed.status, keys]).toEqual([200, listed]);
    // The account's first key, which the operator has issued.
    expect(removed.body.unknown_issuer_count).toBe(1);
    expect(
      keys.map(({ id, kind, project, status }: Record<string, string>) => [id, kind, project, status]),
    ).toEqual([
      [own.key.id, 'account', null, 'active'],
      [further.key.id, 'account', null, 'active'],
      [expect.any(String), 'project', slug, 'active'],
      [scoped.key.id, 'scoped', slug, 'active'],
    ]);
    expect(JSON.stringify(keys)).not.toContain(own.api_key);
    for (const { api_key: secret } of [own, further]) expect(await works(secret)).toBe(true);
    // They can still be found by whose they were.
    expect((await call(key, 'GET', `/account/members/${admin.id}/keys`)).body.keys).toEqual(listed);
  });

  it('loses with revoke_keys all keys but those that sign tokens, in every process, and the neighbour none', async () => {
    const { key, slug, admin, own, further, scoped, projectKey } = await openTeam('Revoked');
    const neighbour = await join(key, 'neighbour@example.com', 'admin');
    const kept = await issue(neighbour.page, '/account/keys', { name: 'kept', role: 'admin' });
    const second = await openSecondProcess(rowhouse);
    const there = async (secret: string) =>
      (await second.call('GET', `/projects/${slug}`, { key: secret })).status;
    for (const { api_key: secret } of [own, further, scoped, kept]) expect(await there(secret)).toBe(200);
    const removed = await call(key, 'DELETE', `/account/members/${admin.id}?revoke_keys=true`);
    expect(removed.status, JSON.stringify(removed.body)).toBe(200);
    expect(removed.body.keys.map(({ kind, status }: Record<string, string>) => [kind, status])).toEqual([
      ['account', 'revoked'],
      ['account', 'revoked'],
      ['project', 'active'],
      ['scoped', 'revoked'],
    ]);
    for (const { api_key: secret } of [own, further, scoped])
      await expect.poll(() => there(secret), { timeout: soon }).toBe(401);
    for (const secret of [kept.api_key, projectKey]) expect(await there(secret)).toBe(200);
    await second.stop();
    const { entries } = (await call(key, 'GET', '/audit?limit=5')).body;
    expect(
      entries
        .slice(0, 4)
        .map((entry: Record<string, unknown>) => [entry.action, entry.target, entry.project, entry.outcome]),
    ).toEqual([
      ['member.remove', admin.id, null, 'done'],
      ['key.revoke', scoped.key.id, slug, 'done'],
      ['account_key.revoke', further.key.id, null, 'done'],
      ['account_key.revoke', own.key.id, null, 'done'],
    ]);
    expect(entries[0].details).toEqual({ revoke_keys: 'true' });
  });

  it('may know keys from before issuers were recorded: the response counts them', async () => {
    const { key, slug, admin, own, scoped } = await openTeam('Earlier');
    const neighbour = await openTeam('Neighbour');
    const { control } = rowhouse.service.deps;
    const ids = [own.key.id, scoped.key.id, neighbour.own.key.id];
    await control.query(sql`update keys set issued_by = null where id = any (${ids}::text[])`);
    const listed = (await call(key, 'GET', `/account/members/${admin.id}/keys`)).body;
    const removed = await call(key, 'DELETE', `/account/members/${admin.id}?revoke_keys=true`);
    const kinds = removed.body.keys.map((one: { kind: string }) => one.kind);
    expect([kinds, removed.body.unknown_issuer_count]).toEqual([['account', 'project'], 3]);
    expect(listed.unknown_issuer_count).toBe(3);
    // With a key that names no issuer: another project with two keys, of which the publishable one is public.
    const created = (await call(key, 'POST', '/projects', { name: 'Further' })).body;
    const keysOf = `/projects/${created.project.slug}/keys`;
    expect((await call(key, 'POST', keysOf, { name: 'web', kind: 'publishable' })).status).toBe(201);
    const count = async () => {
      const { body } = await call(key, 'GET', `/account/members/${admin.id}/keys`);
      return body.unknown_issuer_count;
    };
    expect(await count()).toBe(4);
    expect((await call(key, 'DELETE', `/projects/${created.project.slug}`)).status).toBe(200);
    expect(await count(), 'a deleted project has no key that works').toBe(3);
    expect((await call(scoped.api_key, 'GET', `/projects/${slug}`)).status).toBe(200);
  });

  it('issues no key any more: one is listed and revoked, or refused', async () => {
    const { key, admin, own } = await openTeam('Racing');
    const body = { name: 'late', role: 'viewer' };
    const attempts = [
      ...Array.from({ length: 4 }, () => admin.page.call('POST', '/account/keys', { body })),
      ...Array.from({ length: 4 }, () => call(own.api_key, 'POST', '/account/keys', body)),
    ];
    const removed = await call(key, 'DELETE', `/account/members/${admin.id}?revoke_keys=true`);
    expect(removed.status).toBe(200);
    for (const { status, body: answer } of await Promise.all(attempts)) {
      expect([201, 401]).toContain(status);
      if (status === 201) await expect.poll(() => works(answer.api_key), { timeout: soon }).toBe(false);
    }
  });

  it('gets no project, and no key of one, from a request that was under way', async () => {
    const { key, slug, admin, own } = await openTeam('Under-way');
    const { control } = rowhouse.service.deps;
    const projects = async () => (await call(key, 'GET', '/projects')).body.projects.length;
    expect(await projects()).toBe(1);
    /** Ends the rights when the request has come as far as the statement that makes the project. */
    const meanwhile = async (end: Sql, send: () => Promise<{ status: number }>) => {
      const { sent } = await control.transaction(async (transaction) => {
        await transaction.query(
          sql`select from accounts where id = (select account_id from keys where id = ${own.key.id}) for update`,
        );
        const request = send();
        await until('the request waits', async () => {
          const waiting = await control.query(sql`
            select from pg_stat_activity
            where datname = current_database() and wait_event_type = 'Lock' and query like '%accounts%for key share%'`);
          return waiting.length > 0;
        });
        await transaction.query(end);
        return { sent: request };
      });
      return (await sent).status;
    };
    const revoke = sql`update keys set revoked_at = now() where id = ${own.key.id}`;
    for (const [path, name] of [
      ['/projects', 'Late'],
      [`/projects/${slug}/branches`, 'Late branch'],
    ] as const) {
      expect(await meanwhile(revoke, () => call(own.api_key, 'POST', path, { name })), path).toBe(401);
      await control.query(sql`update keys set revoked_at = null where id = ${own.key.id}`);
    }
    const remove = sql`delete from members where person_id = ${admin.id}`;
    const create = () => admin.page.call('POST', '/projects', { body: { name: 'Late' } });
    expect(await meanwhile(remove, create)).toBe(401);
    expect(await projects()).toBe(1);
  });

  it('loses no key that the caller could not revoke alone, and is not removed then', async () => {
    const key = await openAccount('Above');
    const demoted = await join(key, 'demoted@example.com', 'owner');
    await join(key, 'stays@example.com', 'owner');
    const above = await issue(demoted.page, '/account/keys', { name: 'above', role: 'owner' });
    await call(key, 'PATCH', `/account/members/${demoted.id}`, { role: 'admin' });
    const admin = await join(key, 'admin@example.com', 'admin');
    const path = `/account/members/${demoted.id}?revoke_keys=true`;
    for (const page of [admin.page, demoted.page])
      expect(outcome(await page.call('DELETE', path))).toEqual([403, 'forbidden']);
    expect(await works(above.api_key)).toBe(true);
    expect((await demoted.page.call('GET', '/account/members')).status).toBe(200);
    expect((await call(key, 'DELETE', path)).status).toBe(200);
    await expect.poll(() => works(above.api_key), { timeout: soon }).toBe(false);
  });

  it('leaves an owner behind, also when the last key of an owner is revoked', async () => {
    const key = await openAccount('Lonely');
    const owner = await join(key, 'lonely@example.com', 'owner');
    const only = await issue(owner.page, '/account/keys', { name: 'only', role: 'owner' });
    const first = (await call(key, 'GET', '/account/keys')).body.keys[0].id;
    expect((await call(only.api_key, 'DELETE', `/account/keys/${first}`)).status).toBe(200);
    const second = await join(only.api_key, 'second@example.com', 'owner');
    await call(only.api_key, 'PATCH', `/account/members/${owner.id}`, { role: 'viewer' });
    const path = (id: string) => `/account/members/${id}?revoke_keys=true`;
    expect((await second.page.call('DELETE', path(owner.id))).status).toBe(200);
    await expect.poll(() => works(only.api_key), { timeout: soon }).toBe(false);
    // The last owner stays, with or without keys.
    expect(outcome(await second.page.call('DELETE', path(second.id)))).toEqual([409, 'conflict']);
    expect(await second.page.call('GET', '/account/keys')).toMatchObject({ status: 200 });
  });
});
