// People who belong to accounts: invitations, roles, leaving, sessions.
import { describe, expect, it, onTestFinished } from 'vitest';
import { countAttempt } from '../../../src/access/people/sign-in-attempts.ts';
import { sql } from '../../../src/postgres/sql.ts';
import { listening, outcome, Page } from '../../support/console-page.ts';
import { api, openSecondProcess, soon, useTestService } from '../../support/helpers.ts';

const rowhouse = useTestService({ passwordIterations: 1_000, trustedProxies: ['127.0.0.1'] });
const password = 'violet anchor seven maple';
let addresses = 0;
const fromElsewhere = () => ({
  'x-forwarded-for': `10.9.${Math.floor(++addresses / 250)}.${addresses % 250}`,
});

const openAccount = async (name: string): Promise<string> => {
  const { body } = await rowhouse.call('POST', `${api}/accounts`, {
    key: rowhouse.operatorKey,
    body: { name },
  });
  return body.api_key;
};
const newPage = async () => new Page(await listening(rowhouse));
const invite = async (key: string, body: object) => {
  const { status, body: answer } = await rowhouse.call('POST', `${api}/account/invitations`, { key, body });
  expect(status, JSON.stringify(answer)).toBe(201);
  return String(answer.link).split('#invitation=')[1] ?? '';
};
const accept = (page: Page, code: string, given = password) =>
  page.call('POST', '/console/invitation/accept', {
    body: { code, password: given },
    headers: fromElsewhere(),
  });
const signIn = async (email: string, given = password) => {
  const page = await newPage();
  const answer = await page.signIn({ email, password: given });
  return { page, answer };
};
/** A member of the account of this key, who has signed in. */
const join = async (key: string, email: string, role: string, more: object = {}) => {
  const page = await newPage();
  const accepted = await accept(page, await invite(key, { email, role, ...more }));
  expect(accepted.status, accepted.text).toBe(200);
  page.token = accepted.body.token;
  return { page, id: accepted.body.person.id as string };
};
const membersOf = async (key: string) =>
  (await rowhouse.call('GET', `${api}/account/members`, { key })).body.members as {
    id: string;
    email: string;
    role: string;
  }[];
const call = (key: string, method: string, path: string, body?: unknown) =>
  rowhouse.call(method, api + path, { key, ...(body !== undefined && { body }) });

describe('an invitation', () => {
  it('makes a new person a member, once, with the role that it names', async () => {
    const key = await openAccount('Inviting');
    const code = await invite(key, { email: 'Ada@Example.com', role: 'developer' });
    const page = await newPage();
    const opened = await page.call('POST', '/console/invitation', { body: { code } });
    expect(opened.body).toMatchObject({
      email: 'Ada@Example.com',
      role: 'developer',
      is_known: false,
      invited_by: null,
      account: { name: 'Inviting' },
    });
    const answers = await Promise.all(Array.from({ length: 5 }, async () => accept(await newPage(), code)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(outcome(await accept(page, code))).toEqual([400, 'invalid_code']);
    const { answer } = await signIn('ada@example.com');
    expect(answer.body).toMatchObject({ person: { email: 'Ada@Example.com' }, role: 'developer' });
    expect(await membersOf(key)).toEqual([
      expect.objectContaining({ email: 'Ada@Example.com', role: 'developer', projects: null }),
    ]);
  });

  it('adds somebody who exists to a second account, by the present password only', async () => {
    const [first, second] = [await openAccount('First'), await openAccount('Second')];
    await join(first, 'bob@example.com', 'owner');
    const code = await invite(second, { email: 'bob@example.com', role: 'viewer' });
    expect(outcome(await accept(await newPage(), code, 'another password entirely'))).toEqual([
      401,
      'invalid_credentials',
    ]);
    expect((await accept(await newPage(), code)).status).toBe(200);
    const { page } = await signIn('bob@example.com');
    const profile = await page.call('GET', '/console/person');
    expect(
      profile.body.accounts.map(({ name, role }: { name: string; role: string }) => [name, role]),
    ).toEqual([
      ['First', 'owner'],
      ['Second', 'viewer'],
    ]);
    const [, { id }] = profile.body.accounts;
    expect((await page.call('POST', '/console/session/account', { body: { account_id: id } })).status).toBe(
      200,
    );
    expect((await page.call('GET', '/console/session')).body).toMatchObject({
      role: 'viewer',
      account: { id },
    });
    expect(
      outcome(await page.call('POST', '/console/session/account', { body: { account_id: 'default' } })),
    ).toEqual([404, 'account_not_found']);
  });

  it('is accepted without a password by somebody who is signed in, for the own address only, once', async () => {
    const [first, second] = [await openAccount('Own'), await openAccount('Joined')];
    const { page, id } = await join(first, 'joins@example.com', 'owner');
    const { page: stranger } = await join(first, 'stranger@example.com', 'viewer');
    const code = await invite(second, { email: 'Joins@Example.com', role: 'developer' });
    const joinAs = (by: Page, given = code) =>
      by.call('POST', '/console/person/invitation', { body: { code: given }, headers: fromElsewhere() });
    expect(outcome(await joinAs(stranger))).toEqual([403, 'forbidden']);
    expect(outcome(await joinAs(await newPage()))).toEqual([401, 'session_required']);
    expect(outcome(await joinAs(page, 'rh_invite_nothing'))).toEqual([400, 'invalid_code']);
    const answers = await Promise.all([joinAs(page), joinAs(page), joinAs(page)]);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(outcome(await joinAs(page))).toEqual([400, 'invalid_code']);
    // The session goes on there.
    expect((await page.call('GET', '/console/session')).body).toMatchObject({
      role: 'developer',
      account: { name: 'Joined' },
    });
    expect(await membersOf(second)).toEqual([expect.objectContaining({ id, role: 'developer' })]);
    const { entries } = (await call(second, 'GET', '/audit')).body;
    expect(entries[0]).toMatchObject({
      action: 'member.join',
      target: id,
      outcome: 'done',
      actor: { kind: 'person', id, name: 'joins@example.com' },
    });
    expect(JSON.stringify(entries)).not.toContain(code);
    // Nobody but the invited one got in, and an account key is no person.
    const byKey = await newPage();
    await byKey.signIn({ api_key: first });
    expect(outcome(await joinAs(byKey))).toEqual([403, 'forbidden']);
  });

  it('opens the session of who accepts it, in that account', async () => {
    const key = await openAccount('Opening');
    const page = await newPage();
    const accepted = await accept(page, await invite(key, { email: 'open@example.com', role: 'viewer' }));
    expect(accepted.body).toMatchObject({
      person: { email: 'open@example.com' },
      role: 'viewer',
      account: { name: 'Opening' },
      sees_all_projects: true,
      suspended_because: null,
    });
    page.token = accepted.body.token;
    expect((await page.call('GET', '/projects')).status).toBe(200);
  });

  it('cannot be made for a role above the own, is listed without its code, and can be revoked', async () => {
    const key = await openAccount('Careful');
    const admin = await join(key, 'admin@example.com', 'admin');
    expect(
      outcome(
        await admin.page.call('POST', '/account/invitations', {
          body: { email: 'x@example.com', role: 'owner' },
        }),
      ),
    ).toEqual([403, 'forbidden']);
    const code = await invite(key, { email: 'x@example.com', role: 'viewer' });
    const { body } = await call(key, 'GET', '/account/members');
    expect(JSON.stringify(body)).not.toContain(code);
    expect((await call(key, 'DELETE', `/account/invitations/${body.invitations[0].id}`)).status).toBe(200);
    expect(outcome(await accept(await newPage(), code))).toEqual([400, 'invalid_code']);
  });
});

describe('the name of a person', () => {
  it('is shown to the members of the account, recorded, and can be removed', async () => {
    const key = await openAccount('Names');
    const { page, id } = await join(key, 'grace@names.example', 'viewer');
    const change = (name: unknown) => page.call('PATCH', '/console/person', { body: { name } });
    const seen = async () => [
      (await page.call('GET', '/console/person')).body.person.name,
      ((await membersOf(key))[0] as unknown as { name: string | null }).name,
    ];
    expect(await seen()).toEqual([null, null]);
    expect((await change('  Grace Hopper 葛麗絲  ')).status).toBe(200);
    expect(await seen()).toEqual(['Grace Hopper 葛麗絲', 'Grace Hopper 葛麗絲']);
    const { entries } = (await call(key, 'GET', '/audit')).body;
    expect(entries[0]).toMatchObject({
      action: 'person.name',
      target: id,
      details: { name: 'Grace Hopper 葛麗絲' },
      actor: { kind: 'person', name: 'grace@names.example' },
    });
    expect((await change(null)).status).toBe(200);
    expect(await seen()).toEqual([null, null]);
  });

  it('has 1 to 100 characters, none of which hides or reverses others', async () => {
    const key = await openAccount('Strict names');
    const { page } = await join(key, 'strict@names.example', 'viewer');
    const change = (body: object) => page.call('PATCH', '/console/person', { body });
    const bad = ['', '   ', 'x'.repeat(101), 'a\nb', 'a\u0000b', 'a\u202eb', 'a\u200bb', 'a\u2066b', 7];
    for (const name of bad)
      expect(outcome(await change({ name })), JSON.stringify(name)).toEqual([400, 'invalid_request']);
    expect(outcome(await change({}))).toEqual([400, 'invalid_request']);
    expect(outcome(await change({ name: 'x', email: 'y@example.com' }))).toEqual([400, 'invalid_request']);
    expect((await change({ name: 'x'.repeat(100) })).status).toBe(200);
    const byKey = await newPage();
    await byKey.signIn({ api_key: key });
    expect(outcome(await byKey.call('PATCH', '/console/person', { body: { name: 'x' } }))).toEqual([
      403,
      'forbidden',
    ]);
  });
});

describe('a member', () => {
  it('sees what its role and its projects allow, at once after a change', async () => {
    const key = await openAccount('Team');
    const [one, two] = ['one', 'two'].map((name) => `team-${name}`);
    for (const slug of [one, two])
      expect((await rowhouse.call('POST', '/projects', { key, body: { name: 'P', slug } })).status).toBe(201);
    const { page, id } = await join(key, 'viewer@example.com', 'viewer', { projects: [one] });
    const slugs = async () =>
      (await page.call('GET', '/projects')).body.projects.map(({ slug }: { slug: string }) => slug);
    expect(await slugs()).toEqual([one]);
    expect(outcome(await page.call('GET', `/projects/${two}`))).toEqual([404, 'project_not_found']);
    expect(
      outcome(await page.call('POST', `/projects/${two}/query`, { body: { query: 'select 1' } })),
    ).toEqual([404, 'project_not_found']);
    const write = () =>
      page.call('POST', `/projects/${one}/query`, {
        body: { query: 'create table if not exists t (id int)' },
      });
    expect((await write()).status).toBe(400);
    expect(
      (await call(key, 'PATCH', `/account/members/${id}`, { role: 'developer', projects: null })).status,
    ).toBe(200);
    expect((await write()).status).toBe(200);
    expect((await slugs()).sort()).toEqual([one, two]);
    expect((await call(key, 'DELETE', `/account/members/${id}`)).status).toBe(200);
    expect(outcome(await write())).toEqual([401, 'session_required']);
  });

  it('that sees some projects reaches no other by a branch, an upload or a new project', async () => {
    const key = await openAccount('Walls');
    const call2 = (method: string, path: string, body?: unknown) =>
      rowhouse.call(method, path, { key, ...(body !== undefined && { body }) });
    expect((await call2('POST', '/projects', { name: 'Main', slug: 'walls-main' })).status).toBe(201);
    const branched = await call2('POST', '/projects/walls-main/branches', { name: 'Dev', slug: 'walls-dev' });
    expect(branched.status, JSON.stringify(branched.body)).toBe(201);
    const { page } = await join(key, 'walls@example.com', 'developer', { projects: ['walls-dev'] });
    for (const action of ['reset', 'promote'])
      expect(outcome(await page.call('POST', `/projects/walls-dev/${action}`))).toEqual([409, 'conflict']);
    for (const [method, path, body] of [
      ['POST', '/projects', { name: 'Mine' }],
      ['GET', '/uploads'],
      ['POST', '/projects/walls-dev/branches', { name: 'B' }],
    ] as [string, string, unknown?][])
      expect([path, ...outcome(await page.call(method, path, body === undefined ? {} : { body }))]).toEqual([
        ...[path, 403, 'forbidden'],
      ]);
    const members = (await page.call('GET', '/account/members')).body;
    expect([members.invitations, members.members[0].projects]).toEqual([[], null]);
  });

  it('of a suspended account still reaches the other ones', async () => {
    const [late, fine] = [await openAccount('Late'), await openAccount('Fine')];
    await join(late, 'both@example.com', 'viewer');
    await accept(await newPage(), await invite(fine, { email: 'both@example.com', role: 'viewer' }));
    const { page, answer } = await signIn('both@example.com');
    expect(answer.body.account.name).toBe('Late');
    await rowhouse.call('PATCH', `${api}/accounts/${answer.body.account.id}`, {
      key: rowhouse.operatorKey,
      body: { suspended_because: 'Unpaid.' },
    });
    expect(outcome(await page.call('GET', '/projects'))).toEqual([403, 'account_suspended']);
    expect((await page.call('GET', '/console/person')).status).toBe(200);
    expect((await signIn('both@example.com')).answer.body.account.name).toBe('Fine');
  });

  it('that was removed does not come back by an invitation of its own', async () => {
    const key = await openAccount('Gone');
    const admin = await join(key, 'gone@example.com', 'admin');
    const invited = await admin.page.call('POST', '/account/invitations', {
      body: { email: 'second@example.com', role: 'admin' },
    });
    expect(invited.status, invited.text).toBe(201);
    const code = String(invited.body.link).split('#invitation=')[1] ?? '';
    const opened = await (await newPage()).call('POST', '/console/invitation', { body: { code } });
    expect(opened.body.invited_by).toBe('gone@example.com');
    expect((await call(key, 'DELETE', `/account/members/${admin.id}`)).status).toBe(200);
    expect(outcome(await accept(await newPage(), code))).toEqual([400, 'invalid_code']);
  });

  it('that is removed during its requests leaves nothing behind that works', async () => {
    const key = await openAccount('Interrupted');
    const slug = 'interrupted';
    expect((await rowhouse.call('POST', '/projects', { key, body: { name: 'P', slug } })).status).toBe(201);
    const { page, id } = await join(key, 'interrupted@example.com', 'admin');
    const query = (text: string) => page.call('POST', `/projects/${slug}/query`, { body: { query: text } });
    const running = query('select pg_sleep(1)');
    const invitations = Array.from({ length: 5 }, (_, n) =>
      page.call('POST', '/account/invitations', { body: { email: `late${n}@example.com`, role: 'admin' } }),
    );
    expect((await call(key, 'DELETE', `/account/members/${id}`)).status).toBe(200);
    for (const attempt of [query('select 1'), page.call('GET', '/account/members')])
      expect(outcome(await attempt)).toEqual([401, 'session_required']);
    // A statement that had started finishes and gets its own answer.
    expect([200, 401]).toContain((await running).status);
    for (const { status, body } of await Promise.all(invitations)) {
      expect([201, 401]).toContain(status);
      if (status !== 201) continue;
      const code = String(body.link).split('#invitation=')[1] ?? '';
      expect(outcome(await accept(await newPage(), code))).toEqual([400, 'invalid_code']);
    }
    expect(await membersOf(key)).toEqual([]);
  });

  it('that is removed by one process has no session in another', async () => {
    const key = await openAccount('Two processes');
    const { id } = await join(key, 'twice@example.com', 'developer');
    const neighbour = await join(key, 'stays@example.com', 'viewer');
    const second = await openSecondProcess(rowhouse, {
      passwordIterations: 1_000,
      trustedProxies: ['127.0.0.1'],
    });
    onTestFinished(second.stop);
    const page = new Page(await listening(second));
    expect((await page.signIn({ email: 'twice@example.com', password })).status).toBe(201);
    const see = async () => outcome(await page.call('GET', '/projects'));
    expect(await see()).toEqual([200, undefined]);
    expect((await call(key, 'DELETE', `/account/members/${id}`)).status).toBe(200);
    await expect.poll(see, { timeout: soon }).toEqual([401, 'session_required']);
    expect((await neighbour.page.call('GET', '/projects')).status).toBe(200);
  });

  it('with a lower role than before backs no invitation to the role of before, and neither does a key that expired', async () => {
    const key = await openAccount('Demoted');
    const owner = await join(key, 'demoted@example.com', 'owner');
    const inviteAs = async (role: string) => {
      const body = { email: `by-demoted-${role}@example.com`, role };
      const invited = await owner.page.call('POST', '/account/invitations', { body });
      expect(invited.status, invited.text).toBe(201);
      return String(invited.body.link).split('#invitation=')[1] ?? '';
    };
    const [asOwner, asViewer] = [await inviteAs('owner'), await inviteAs('viewer')];
    await join(key, 'stays@example.com', 'owner');
    const demoted = await call(key, 'PATCH', `/account/members/${owner.id}`, { role: 'admin' });
    expect(demoted.status, JSON.stringify(demoted.body)).toBe(200);
    expect(outcome(await accept(await newPage(), asOwner))).toEqual([400, 'invalid_code']);
    expect((await accept(await newPage(), asViewer)).status).toBe(200);
    const { body: short } = await call(key, 'POST', '/account/keys', {
      name: 'short',
      role: 'admin',
      expires_at: new Date(Date.now() + 3_600_000).toISOString(),
    });
    const codes = [];
    for (const name of ['in-time', 'too-late'])
      codes.push(await invite(short.api_key, { email: `${name}@example.com`, role: 'viewer' }));
    expect((await accept(await newPage(), codes[0] ?? '')).status).toBe(200);
    await rowhouse.service.deps.control.query(
      sql`update keys set expires_at = now() - interval '1 second' where id = ${short.key.id}`,
    );
    expect(outcome(await accept(await newPage(), codes[1] ?? ''))).toEqual([400, 'invalid_code']);
  });

  it('cannot change members above the own role, nor promote itself', async () => {
    const key = await openAccount('Ranks');
    const owner = await join(key, 'rank-owner@example.com', 'owner');
    const admin = await join(key, 'rank-admin@example.com', 'admin');
    const change = (page: Page, id: string, role: string) =>
      page.call('PATCH', `/account/members/${id}`, { body: { role } });
    expect(outcome(await change(admin.page, owner.id, 'viewer'))).toEqual([403, 'forbidden']);
    expect(outcome(await change(admin.page, admin.id, 'owner'))).toEqual([403, 'forbidden']);
    expect(outcome(await admin.page.call('DELETE', `/account/members/${owner.id}`))).toEqual([
      403,
      'forbidden',
    ]);
    const developer = await join(key, 'rank-developer@example.com', 'developer');
    expect(outcome(await developer.page.call('DELETE', `/account/members/${admin.id}`))).toEqual([
      403,
      'forbidden',
    ]);
    expect((await developer.page.call('DELETE', `/account/members/${developer.id}`)).status).toBe(200);
  });

  it('stays if it is the last owner, also when two owners leave at the same time', async () => {
    const key = await openAccount('Owned');
    const owners = [await join(key, 'o1@example.com', 'owner'), await join(key, 'o2@example.com', 'owner')];
    const left = await Promise.all(
      owners.map(({ page, id }) => page.call('DELETE', `/account/members/${id}`)),
    );
    expect(left.map(({ status }) => status).sort()).toEqual([200, 409]);
    const [last] = await membersOf(key);
    expect((await membersOf(key)).map(({ role }) => role)).toEqual(['owner']);
    expect((await call(key, 'PATCH', `/account/members/${last?.id}`, { role: 'admin' })).status).toBe(409);
  });
});

describe('a person', () => {
  it('signs in with the right password only, and too many attempts are refused', async () => {
    const key = await openAccount('Guessed');
    await join(key, 'guess@example.com', 'viewer');
    const attempt = async (given: string) => {
      const page = await newPage();
      return outcome(
        await page.call('POST', '/console/session', {
          body: { email: 'guess@example.com', password: given },
          headers: { 'x-forwarded-for': '10.200.0.1' },
        }),
      );
    };
    const codes = [];
    for (let n = 0; n < 12; n++) codes.push((await attempt(`wrong password ${n}`))[1]);
    expect(codes.slice(0, 9)).toEqual(Array(9).fill('invalid_credentials'));
    expect(codes.at(-1)).toBe('rate_limited');
    // From elsewhere, the right password still works.
    expect((await signIn('guess@example.com')).answer.status).toBe(201);
    expect(outcome((await signIn('nobody@example.com')).answer)).toEqual([401, 'invalid_credentials']);
  });

  it('still signs in from a known network while strangers guess from everywhere', async () => {
    await join(await openAccount('Besieged'), 'besieged@example.com', 'viewer');
    const attempt = async (given: string, address: string) => {
      const body = { email: 'besieged@example.com', password: given };
      const headers = { 'x-forwarded-for': address };
      return outcome(await (await newPage()).call('POST', '/console/session', { body, headers }));
    };
    expect((await attempt(password, '10.201.0.1'))[0]).toBe(201);
    // Counted as the sign-in does it, without its hashing: quickly enough that no attempt is given back meanwhile.
    const { control } = rowhouse.service.deps;
    const guess = (_: unknown, n: number) => countAttempt(control, 'besieged@example.com', `10.202.0.${n}`);
    const counted = await Promise.allSettled(Array.from({ length: 120 }, guess));
    expect(counted.filter(({ status }) => status === 'rejected')).toHaveLength(20);
    expect((await attempt(password, '10.203.0.1'))[1]).toBe('rate_limited');
    expect((await attempt(password, '10.201.0.1'))[0]).toBe(201);
    // There, guesses are limited as well.
    const near = [];
    for (let n = 0; n < 11; n++) near.push((await attempt('a wrong password', '10.201.0.1'))[1]);
    expect(near.at(-1)).toBe('rate_limited');
  });

  it('changes the password, which ends all other sessions', async () => {
    const key = await openAccount('Changing');
    const { page } = await join(key, 'change@example.com', 'viewer');
    const other = (await signIn('change@example.com')).page;
    const set = (current: string, next: string) =>
      page.call('POST', '/console/person/password', { body: { current_password: current, password: next } });
    expect(outcome(await set('wrong password here', 'a wholly new password'))).toEqual([
      401,
      'invalid_credentials',
    ]);
    expect((await set(password, 'a wholly new password')).status).toBe(200);
    expect((await page.call('GET', '/console/session')).status).toBe(200);
    expect(outcome(await other.call('GET', '/console/session'))).toEqual([401, 'session_required']);
    expect(outcome((await signIn('change@example.com')).answer)).toEqual([401, 'invalid_credentials']);
    expect((await signIn('change@example.com', 'a wholly new password')).answer.status).toBe(201);
  });

  it('lists its sessions, and ends one or all others', async () => {
    const key = await openAccount('Sessions');
    const { page } = await join(key, 'many@example.com', 'viewer');
    const others = [(await signIn('many@example.com')).page, (await signIn('many@example.com')).page];
    const list = async () => (await page.call('GET', '/console/sessions')).body.sessions;
    expect(await list()).toHaveLength(3);
    const [one] = others;
    const { id } = (await one?.call('GET', '/console/session'))?.body ?? {};
    expect((await page.call('DELETE', `/console/sessions/${id}`)).status).toBe(200);
    expect((await one?.call('GET', '/console/session'))?.status).toBe(401);
    expect((await page.call('DELETE', '/console/sessions')).status).toBe(200);
    expect(await list()).toHaveLength(1);
  });

  it('reads keys only after the password was entered again', async () => {
    const key = await openAccount('Confirming');
    const { page } = await join(key, 'confirm@example.com', 'owner');
    const confirm = (given: string) =>
      page.call('POST', '/console/session/confirm', { body: { password: given } });
    expect(outcome(await confirm('not the password'))).toEqual([401, 'invalid_credentials']);
    expect((await confirm(password)).status).toBe(200);
  });
});
