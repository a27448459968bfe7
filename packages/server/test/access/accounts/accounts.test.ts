// Several accounts in one installation: their limits, their end, and what one can do to another.
import { describe, expect, it } from 'vitest';
import { ensureAccount } from '../../../src/access/accounts/first-account.ts';
import { newId } from '../../../src/control/new-id.ts';
import { makeKey } from '../../../src/keys/form.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { deleteExpired } from '../../../src/projects/expire.ts';
import { api, soon, until, useTestService } from '../../support/helpers.ts';

const rowhouse = useTestService({ keepDeletedDays: 7 });
const operate = (method: string, path: string, body?: unknown) =>
  rowhouse.call(method, `${api}/accounts${path}`, {
    key: rowhouse.operatorKey,
    ...(body !== undefined && { body }),
  });
const open = async (name: string, limits: object = {}) => {
  const { status, body } = await operate('POST', '', { name, ...limits });
  expect(status, JSON.stringify(body)).toBe(201);
  const id: string = body.account.id;
  const key: string = body.api_key;
  const call = (method: string, path: string, more?: unknown) =>
    rowhouse.call(method, path, { key, ...(more !== undefined && { body: more }) });
  return {
    id,
    key,
    call,
    create: (projectName: string, more = {}) => call('POST', '/projects', { name: projectName, ...more }),
  };
};
const codeOf = ({ status, body }: { status: number; body: { error?: { code: string } } }) => [
  status,
  body.error?.code,
];

describe('an account', () => {
  it('is made, listed, renamed and limited by the operator', async () => {
    const { id } = await open('Acme', { max_projects: 2 });
    const { body } = await operate('GET', `/${id}`);
    expect(body.account).toMatchObject({
      id,
      name: 'Acme',
      status: 'active',
      max_projects: 2,
      max_total_mb: null,
      is_operator: false,
      projects: 0,
      total_limit_mb: 0,
    });
    expect(codeOf(await operate('POST', '', { name: 'Acme' }))).toEqual([409, 'conflict']);
    const changed = await operate('PATCH', `/${id}`, { name: 'Acme Inc.', max_projects: null });
    expect(changed.body.account).toMatchObject({ name: 'Acme Inc.', max_projects: null });
    const names = (await operate('GET', '?limit=1000')).body.accounts.map(
      ({ name }: { name: string }) => name,
    );
    expect(names).toEqual(expect.arrayContaining(['default', 'Acme Inc.']));
    expect(codeOf(await operate('GET', '/none'))).toEqual([404, 'account_not_found']);
    expect(codeOf(await operate('GET', '/%00'))).toEqual([404, 'account_not_found']);
  });

  it('is found by a part of its name or by its id', async () => {
    const { id } = await open('Café 100%_club');
    const found = async (search: string) =>
      (await operate('GET', `?search=${encodeURIComponent(search)}`)).body.accounts.map(
        (account: { id: string }) => account.id,
      );
    for (const search of ['CAFÉ', '0%_c', id]) expect([search, await found(search)]).toEqual([search, [id]]);
    for (const search of ['Café_100', id.slice(1), "' or true --"]) expect(await found(search)).toEqual([]);
  });

  it('is made with an invitation for its first owner', async () => {
    const { status, body } = await operate('POST', '', { name: 'Invited', owner_email: 'first@example.com' });
    expect([status, body.invitation_link]).toEqual([
      201,
      expect.stringMatching(/#invitation=rh_invite_[\w-]+$/),
    ]);
    const members = await rowhouse.call('GET', `${api}/account/members`, { key: body.api_key });
    expect(members.body.invitations).toEqual([
      expect.objectContaining({ email: 'first@example.com', role: 'owner' }),
    ]);
    // An address that cannot be invited leaves no account behind.
    expect(codeOf(await operate('POST', '', { name: 'Not made', owner_email: 'nowhere' }))[0]).toBe(400);
    expect((await operate('GET', '?search=Not%20made')).body.accounts).toEqual([]);
  });

  it('is not made at all if its first owner cannot be invited', async () => {
    const { control } = rowhouse.service.deps;
    await control.query(
      sql`alter table invitations add constraint nobody check (email <> 'nobody@example.com')`,
    );
    const make = () => operate('POST', '', { name: 'Half made', owner_email: 'nobody@example.com' });
    const failed = await make().finally(() =>
      control.query(sql`alter table invitations drop constraint nobody`),
    );
    expect(failed.status).toBeGreaterThanOrEqual(500);
    expect((await operate('GET', '?search=Half%20made')).body.accounts).toEqual([]);
    // The name is still free.
    expect((await make()).status).toBe(201);
  });

  it('sees only its own projects, and finds no trace of others', async () => {
    const [one, other] = [await open('One'), await open('Other')];
    const made = await one.create('Secret');
    const { slug, id } = made.body.project;
    const keyId = (await one.call('GET', `/projects/${slug}/keys`)).body.keys[0].id;
    expect((await other.call('GET', '/projects')).body.projects).toEqual([]);
    const attempts: [string, string, unknown?][] = [
      ['GET', `/projects/${slug}`],
      ['GET', `/projects/${id}`],
      ['PATCH', `/projects/${slug}`, { name: 'Mine' }],
      ['DELETE', `/projects/${slug}`],
      ['POST', `/projects/${slug}/restore`, {}],
      ['POST', `/projects/${slug}/query`, { query: 'select 1' }],
      ['GET', `/projects/${slug}/connection`],
      ['GET', `/projects/${slug}/export`],
      ['GET', `/projects/${slug}/keys`],
      ['DELETE', `/projects/${slug}/keys/${keyId}`],
      ['POST', `/projects/${slug}/keys/rotate`, {}],
      ['POST', `/projects/${slug}/branches`, { name: 'Copy' }],
      ['POST', `/projects/${slug}/snapshots`, { name: 'x' }],
      ['GET', `/projects/${slug}/logs`],
      ['GET', `/projects/${slug}/usage`],
      ['GET', `/projects/${slug}/history`],
      ['GET', `/projects/${slug}/auth/users`],
    ];
    for (const [method, path, body] of attempts)
      expect([path, ...codeOf(await other.call(method, path, body))]).toEqual([
        path,
        404,
        'project_not_found',
      ]);
    expect((await one.call('GET', `/projects/${slug}`)).body.project.name).toBe('Secret');
    // A slug is unique in the installation: that much can be found out.
    expect(codeOf(await other.create('Taken', { slug }))).toEqual([409, 'slug_taken']);
  });

  it('reaches nothing of another account by its id', async () => {
    const [one, other] = [await open('Owner of ids'), await open('Knows ids')];
    const { control, jobs } = rowhouse.service.deps;
    const secret = await one.create('Has a key');
    const own = (await other.create('Own')).body.project.slug;
    const keyId = (await one.call('GET', `/projects/${secret.body.project.slug}/keys`)).body.keys[0].id;
    const issued = await one.call('POST', `${api}/account/keys`, { name: 'ci', role: 'viewer' });
    const invited = await one.call('POST', `${api}/account/invitations`, {
      email: 'invited@example.com',
      role: 'viewer',
    });
    const upload = (await one.call('POST', `${api}/uploads`, {})).body.upload.id;
    const member = newId();
    await control.query(sql`
      insert into people (id, email, email_key) values (${member}, 'known@example.com', 'known@example.com')`);
    await control.query(sql`
      insert into members (account_id, person_id, role) values (${one.id}, ${member}, 'viewer')`);
    let finish = () => {};
    const job = await jobs.start({ kind: 'import', accountId: one.id }, async ({ signal }) => {
      await new Promise<void>((resolve) => {
        finish = resolve;
        signal.addEventListener('abort', () => resolve());
      });
      signal.throwIfAborted();
      return {};
    });
    const attempts: [string, string, string, unknown?][] = [
      ['key_not_found', 'DELETE', `/account/keys/${issued.body.key.id}`],
      ['member_not_found', 'PATCH', `/account/members/${member}`, { role: 'owner' }],
      ['member_not_found', 'DELETE', `/account/members/${member}`],
      ['member_not_found', 'DELETE', `/account/invitations/${invited.body.invitation.id}`],
      ['job_not_found', 'GET', `/jobs/${job.id}`],
      ['job_not_found', 'DELETE', `/jobs/${job.id}`],
      ['upload_not_found', 'GET', `/uploads/${upload}`],
      ['upload_not_found', 'DELETE', `/uploads/${upload}`],
      ['key_not_found', 'DELETE', `/projects/${own}/keys/${keyId}`],
    ];
    for (const [code, method, path, body] of attempts)
      expect([path, ...codeOf(await other.call(method, api + path, body))]).toEqual([path, 404, code]);
    const patched = await rowhouse.call('PATCH', `${api}/uploads/${upload}`, {
      key: other.key,
      raw: Buffer.from('PGDMP'),
      headers: { 'upload-offset': '0', 'content-type': 'application/octet-stream' },
    });
    expect(codeOf(patched)).toEqual([404, 'upload_not_found']);

    const key: string = issued.body.api_key;
    expect((await rowhouse.call('GET', '/projects', { key })).status).toBe(200);
    expect((await rowhouse.call('GET', '/projects', { key: secret.body.api_key })).status).not.toBe(401);
    const { members, invitations } = (await one.call('GET', `${api}/account/members`)).body;
    expect(members).toEqual([expect.objectContaining({ id: member, role: 'viewer' })]);
    expect(invitations).toEqual([expect.objectContaining({ email: 'invited@example.com' })]);
    expect((await one.call('GET', `${api}/jobs/${job.id}`)).body.job.status).toBe('running');
    expect((await one.call('GET', `${api}/uploads/${upload}`)).body.upload.offset).toBe(0);
    finish();
    await one.call('DELETE', `${api}/uploads/${upload}`);

    // A cursor is a position only: it shows no entry of the account that got it.
    const { cursor } = (await one.call('GET', `${api}/audit?limit=1`)).body;
    expect(cursor).toEqual(expect.any(String));
    const page = (await other.call('GET', `${api}/audit?cursor=${cursor}&account=${one.id}`)).body;
    for (const { account } of page.entries) expect(account).toBe(other.id);
    expect(codeOf(await other.call('GET', `${api}/audit?cursor=${one.id}`))).toEqual([
      400,
      'invalid_request',
    ]);
  });

  it('cannot repeat a request of another account by its Idempotency-Key', async () => {
    const [one, other] = [await open('Repeating'), await open('Guessing')];
    const create = (key: string) =>
      rowhouse.call('POST', '/projects', {
        key,
        body: { name: 'Same' },
        headers: { 'idempotency-key': 'the-same-key' },
      });
    const first = await create(one.key);
    const second = await create(other.key);
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.body.project.id).not.toBe(first.body.project.id);
  });

  it('cannot have more projects or more limit_mb than allowed, even at once', async () => {
    const { id, create, call } = await open('Small', { max_projects: 3, max_total_mb: 300 });
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, n) => create(`P ${n}`, { limit_mb: 100 })),
    );
    const made = answers.filter(({ status }) => status === 201);
    expect(made).toHaveLength(3);
    for (const answer of answers.filter(({ status }) => status !== 201))
      expect(codeOf(answer)).toEqual([403, 'account_limit']);
    const [{ slug }, gone] = made.map(({ body }) => body.project);
    expect(codeOf(await call('PATCH', `/projects/${slug}`, { limit_mb: 101 }))).toEqual([
      403,
      'account_limit',
    ]);
    expect((await call('PATCH', `/projects/${slug}`, { limit_mb: 50 })).status).toBe(200);
    expect((await call('DELETE', `/projects/${gone.slug}`)).status).toBe(200);
    expect((await create('Next', { limit_mb: 100 })).status).toBe(201);
    expect(codeOf(await call('POST', `/projects/${gone.slug}/restore`, {}))).toEqual([403, 'account_limit']);
    expect(codeOf(await call('POST', `/projects/${slug}/branches`, { name: 'B' }))).toEqual([
      403,
      'account_limit',
    ]);
    expect((await operate('GET', `/${id}`)).body.account).toMatchObject({ projects: 3, total_limit_mb: 250 });
  });
});

describe('requests a second', () => {
  it('are limited for the whole account, with 429, and the neighbour does not notice', async () => {
    const { id, key, create } = await open('Flooding');
    const made = await create('Busy');
    const { slug } = made.body.project;
    expect((await operate('PATCH', `/${id}`, { max_requests_per_second: 5 })).status).toBe(200);
    const query = (by: string) =>
      rowhouse.call('POST', `/projects/${slug}/query`, { key: by, body: { query: 'select 1' } });
    // Also from the cache, which the second request of a key takes.
    const flood = async () => {
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, n) => query(n % 2 ? key : made.body.api_key)),
      );
      return answers.filter(({ status }) => status === 429);
    };
    await expect.poll(async () => (await flood()).length, { timeout: soon }).toBeGreaterThan(20);
    const [refused] = await flood();
    expect(refused?.body.error).toMatchObject({
      code: 'rate_limited',
      message: 'The account may send 5 requests a second.',
    });
    expect(refused?.headers['retry-after']).toBe('1');
    expect((await rowhouse.call('GET', '/projects')).status).toBe(200);
    expect((await operate('PATCH', `/${id}`, { max_requests_per_second: null })).status).toBe(200);
    await expect.poll(async () => (await flood()).length, { timeout: soon }).toBe(0);
  });
});

describe('a suspended account', () => {
  it('is refused with the reason, by every key and by direct connections, and keeps its data', async () => {
    const { id, call, create } = await open('Late payer');
    const made = await create('Kept');
    const { slug } = made.body.project;
    const projectKey = made.body.api_key;
    const query = (key?: string) =>
      rowhouse.call('POST', `/projects/${slug}/query`, { ...(key && { key }), body: { query: 'select 1' } });
    expect((await query(projectKey)).status).toBe(200);
    const suspended = await operate('PATCH', `/${id}`, { suspended_because: 'The invoice is overdue.' });
    expect(suspended.body.account).toMatchObject({
      status: 'suspended',
      suspended_because: 'The invoice is overdue.',
    });
    await expect
      .poll(async () => codeOf(await query(projectKey)), { timeout: soon })
      .toEqual([403, 'account_suspended']);
    const refused = await call('GET', '/projects');
    expect([...codeOf(refused), refused.body.error.message]).toEqual([
      ...[403, 'account_suspended'],
      'This account is suspended: The invoice is overdue.',
    ]);
    // The neighbour does not notice.
    const neighbour = await rowhouse.project();
    expect((await rowhouse.call('GET', `/projects/${neighbour.slug}`)).status).toBe(200);
    expect((await operate('PATCH', `/${id}`, { suspended_because: null })).body.account.status).toBe(
      'active',
    );
    await expect.poll(async () => (await query(projectKey)).status, { timeout: soon }).toBe(200);
  });
});

describe('a deleted account', () => {
  it('is gone with its keys and projects, and comes back with both', async () => {
    const { id, call, create } = await open('Leaving');
    const { slug } = (await create('Left')).body.project;
    const early = (await create('Deleted before')).body.project.slug;
    await call('DELETE', `/projects/${early}`);
    expect((await operate('DELETE', `/${id}`)).body.account).toMatchObject({
      status: 'deleted',
      dropped_after: expect.any(String),
    });
    await expect
      .poll(async () => codeOf(await call('GET', '/projects')), { timeout: soon })
      .toEqual([401, 'invalid_api_key']);
    expect((await operate('GET', '?status=deleted')).body.accounts).toEqual([
      expect.objectContaining({ id, name: 'Leaving' }),
    ]);
    expect((await operate('POST', `/${id}/restore`)).body.account.status).toBe('active');
    await expect
      .poll(
        async () => (await call('POST', `/projects/${slug}/query`, { query: 'select 1 as one' })).body.rows,
        { timeout: soon },
      )
      .toEqual([{ one: 1 }]);
    expect((await call('GET', `/projects/${early}`)).body.project.status).toBe('deleted');
    expect(codeOf(await operate('POST', `/${id}/restore`))).toEqual([409, 'conflict']);
  });
});

describe('keys of an account', () => {
  it('have a role, are listed without the key, and end when they are revoked', async () => {
    const { call } = await open('Keys');
    const issue = (body: object, key?: string) =>
      rowhouse.call('POST', `${api}/account/keys`, { body, ...(key && { key }) });
    const admin = await call('POST', `${api}/account/keys`, { name: 'admin', role: 'admin' });
    expect(admin.status).toBe(201);
    // Nobody gives more than it has.
    expect(codeOf(await issue({ name: 'x', role: 'owner' }, admin.body.api_key))).toEqual([403, 'forbidden']);
    const viewer = await issue({ name: 'viewer', role: 'viewer' }, admin.body.api_key);
    expect(viewer.status).toBe(201);
    const list = async () => (await call('GET', `${api}/account/keys`)).body;
    expect(JSON.stringify(await list())).not.toContain(viewer.body.api_key);
    expect((await list()).keys.map(({ role }: { role: string }) => role)).toEqual([
      'owner',
      'admin',
      'viewer',
    ]);
    const see = () => rowhouse.call('GET', '/projects', { key: viewer.body.api_key });
    expect((await see()).status).toBe(200);
    const [owner] = (await list()).keys;
    expect(
      codeOf(await rowhouse.call('DELETE', `${api}/account/keys/${owner.id}`, { key: admin.body.api_key })),
    ).toEqual([403, 'forbidden']);
    expect((await call('DELETE', `${api}/account/keys/${viewer.body.key.id}`)).body.key.status).toBe(
      'revoked',
    );
    await expect.poll(async () => codeOf(await see()), { timeout: soon }).toEqual([401, 'invalid_api_key']);
  });
});

describe('limits that are changed at the same time', () => {
  it('are never exceeded together', async () => {
    const { create, call, id } = await open('Racing', { max_total_mb: 100 });
    const { slug } = (await create('One', { limit_mb: 10 })).body.project;
    await create('Two', { limit_mb: 10 });
    // Up and down again, and others that would fit only beside the old value.
    const change = (limit_mb: number) => call('PATCH', `/projects/${slug}`, { limit_mb });
    for (let round = 0; round < 4; round++) {
      const wishes = [change(90), change(20), change(60), create(`More ${round}`, { limit_mb: 40 })];
      await Promise.all(wishes);
      const { total_limit_mb: total } = (await operate('GET', `/${id}`)).body.account;
      expect(total).toBeLessThanOrEqual(100);
    }
  });
});

describe('an account that is suspended', () => {
  it('loses no project whose time is over meanwhile', async () => {
    const { control, server } = rowhouse.service.deps;
    const { create, id, call } = await open('Sleeping');
    const { slug } = (await create('Short')).body.project;
    await operate('PATCH', `/${id}`, { suspended_because: 'unpaid' });
    await control.query(
      sql`update projects set expires_at = now() - interval '1 minute' where slug = ${slug}`,
    );
    await deleteExpired({ control, server });
    await operate('PATCH', `/${id}`, { suspended_because: null });
    await control.query(sql`update projects set expires_at = null where slug = ${slug}`);
    expect((await call('GET', `/projects/${slug}`)).status).toBe(200);
  });
});

describe('a key that the operator issues', () => {
  it('works in that account, and the account sees it in its audit log', async () => {
    const { id, key, call } = await open('Locked out');
    const issued = await operate('POST', `/${id}/keys`, { name: 'given by the operator', role: 'owner' });
    expect(issued.status, JSON.stringify(issued.body)).toBe(201);
    const own = await rowhouse.call('GET', `${api}/account`, { key: issued.body.api_key });
    expect(own.body).toMatchObject({ account: { id }, role: 'owner' });
    const { entries } = (await call('GET', `${api}/audit?action=account.issue_key`)).body;
    expect(entries).toEqual([expect.objectContaining({ account: id, outcome: 'done', target: id })]);
    expect(JSON.stringify(entries)).not.toContain(issued.body.api_key);
    expect(codeOf(await operate('POST', '/none/keys', { name: 'x' }))).toEqual([404, 'account_not_found']);
    expect(
      (await rowhouse.call('POST', `${api}/accounts/${id}/keys`, { key, body: { name: 'x' } })).status,
    ).toBe(403);
  });
});

describe('an admin of the account of the operator', () => {
  it('issues no key above the own role there, and still issues keys of other accounts', async () => {
    const issue = (key: string, id: string, body: object) =>
      rowhouse.call('POST', `${api}/accounts/${id}/keys`, { key, body });
    const made = await issue(rowhouse.accountKey, 'default', { name: 'admin', role: 'admin' });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const admin: string = made.body.api_key;
    expect(codeOf(await issue(admin, 'default', { name: 'more', role: 'owner' }))).toEqual([
      403,
      'forbidden',
    ]);
    expect((await issue(admin, 'default', { name: 'same', role: 'admin' })).status).toBe(201);
    const { id } = await open('Helped');
    expect((await issue(admin, id, { name: 'given', role: 'owner' })).status).toBe(201);
    const byOperator = await issue(rowhouse.operatorKey, 'default', { name: 'anew', role: 'owner' });
    expect(byOperator.status).toBe(201);
  });
});

describe('the account key of the start', () => {
  const start = async (accountKey: string) => {
    let isRefused = false;
    await ensureAccount(rowhouse.service.deps.control, { accountKey, newAccountKey: false }, (made) => {
      isRefused = made.isRefused;
    });
    return isRefused;
  };
  const works = async (key: string) => (await rowhouse.call('GET', '/projects', { key })).status === 200;

  it('replaces the one of an earlier start, and no key that somebody issued', async () => {
    const issued = await rowhouse.call('POST', `${api}/account/keys`, {
      body: { name: 'ci', role: 'owner' },
    });
    const ci: string = issued.body.api_key;
    const [first, second] = [makeKey('rh_acct_'), makeKey('rh_acct_')];
    expect(await start(first)).toBe(false);
    expect(await start(second)).toBe(false);
    await until('the first one has ended', async () => !(await works(first)), soon);
    expect([await works(second), await works(ci)]).toEqual([true, true]);
    // Set again.
    expect(await start(first)).toBe(false);
    expect([await works(first), await works(ci)]).toEqual([true, true]);
    // Somebody revokes it: no start brings it back, and the others go on working.
    const { keys } = (await rowhouse.call('GET', `${api}/account/keys`, { key: ci })).body;
    const { id } = keys.find(
      ({ status, name }: { status: string; name: string }) => status === 'active' && name === 'account key',
    );
    expect((await rowhouse.call('DELETE', `${api}/account/keys/${id}`, { key: ci })).status).toBe(200);
    expect(await start(first)).toBe(true);
    await until('the revoked one has ended', async () => !(await works(first)), soon);
    expect(await works(ci)).toBe(true);
    expect(await start(rowhouse.accountKey)).toBe(false);
  });
});
