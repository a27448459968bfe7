// The audit log: what gets into it, who reads it, and that it is only added to.
import { describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { openPage } from '../support/console-page.ts';
import { api, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService({ passwordIterations: 1_000 });
const read = async (query = '', key?: string) => {
  const { status, body } = await rowhouse.call('GET', `${api}/audit${query}`, key ? { key } : {});
  expect(status, JSON.stringify(body)).toBe(200);
  return body.entries;
};
const openAccount = async (name: string): Promise<string> =>
  (await rowhouse.call('POST', `${api}/accounts`, { key: rowhouse.operatorKey, body: { name } })).body
    .api_key;

describe('an entry', () => {
  it('says who did what to which project, from where, and how it ended', async () => {
    const key = await openAccount('Audited');
    const made = await rowhouse.call('POST', '/projects', { key, body: { name: 'Shop', limit_mb: 64 } });
    const { slug } = made.body.project;
    await rowhouse.call('DELETE', `/projects/${slug}`, { key: made.body.api_key });
    await rowhouse.call('DELETE', `/projects/${slug}`, { key });
    const entries = await read('', key);
    expect(
      entries.map(({ action, outcome, error }: Record<string, string>) => [action, outcome, error]),
    ).toEqual([
      ['project.delete', 'done', null],
      ['project.delete', 'refused', 'forbidden'],
      ['project.create', 'done', null],
      ['account.create', 'done', null],
    ]);
    expect(entries[3].actor.kind).toBe('operator');
    expect(entries[2]).toMatchObject({
      actor: { kind: 'key', id: expect.stringMatching(/^key_/), name: null },
      address: '127.0.0.1',
      project: slug,
      details: { name: 'Shop', limit_mb: 64 },
      request_id: made.headers['x-request-id'],
    });
  });

  it('keeps null: an account that is resumed, a limit that is lifted', async () => {
    const made = await rowhouse.call('POST', `${api}/accounts`, {
      key: rowhouse.operatorKey,
      body: { name: 'Resumed', max_projects: 1 },
    });
    const change = (body: object) =>
      rowhouse.call('PATCH', `${api}/accounts/${made.body.account.id}`, { key: rowhouse.operatorKey, body });
    await change({ suspended_because: 'Unpaid.' });
    expect((await change({ suspended_because: null, max_projects: null })).status).toBe(200);
    const entries = await read('?action=account.limit', made.body.api_key);
    expect(entries.map(({ details }: { details: object }) => details)).toEqual([
      { max_projects: null, suspended_because: null },
      { suspended_because: 'Unpaid.' },
    ]);
  });

  it('is written for downloads, keys, accounts and sign-ins, and contains no secret', async () => {
    const key = await openAccount('Secrets');
    const { body } = await rowhouse.call('POST', '/projects', { key, body: { name: 'Vault' } });
    const { slug } = body.project;
    const issued = await rowhouse.call('POST', `/projects/${slug}/keys`, {
      key,
      body: { name: 'k', scopes: ['query'] },
    });
    const connection = await rowhouse.call('GET', `/projects/${slug}/connection`, { key });
    await rowhouse.call('GET', `/projects/${slug}/export?format=csv`, { key });
    const invited = await rowhouse.call('POST', `${api}/account/invitations`, {
      key,
      body: { email: 'ada@example.com', role: 'viewer' },
    });
    const accountKey = await rowhouse.call('POST', `${api}/account/keys`, { key, body: { name: 'ci' } });
    await openPage(rowhouse, key);
    const entries = await read('?limit=1000', key);
    const actions = entries.map(({ action }: { action: string }) => action).sort();
    expect(actions).toEqual([
      'account.create',
      'account_key.issue',
      'key.issue',
      'member.invite',
      'project.connection',
      'project.create',
      'project.export',
      'session.sign_in',
    ]);
    const all = JSON.stringify(await read('?limit=1000', rowhouse.operatorKey));
    const secrets = [
      ...[key, body.api_key, issued.body.api_key, accountKey.body.api_key],
      ...[invited.body.link.split('=')[1], connection.body.connection.password],
    ];
    for (const secret of secrets) {
      expect(secret.length).toBeGreaterThan(20);
      expect(all).not.toContain(secret);
    }
  });
});

describe('a hostile caller', () => {
  it('cannot keep an action out of the log, nor get a secret into it', async () => {
    const key = await openAccount('Hostile');
    const { body } = await rowhouse.call('POST', '/projects', { key, body: { name: 'Odd' } });
    const { slug } = body.project;
    const name = 'ci\\u0000", "x": "';
    const issued = await rowhouse.call('POST', `/projects/${slug}/keys`, {
      key,
      body: { name, scopes: ['query'] },
    });
    expect(issued.status).toBe(201);
    // The key is pasted where its id belongs.
    await rowhouse.call('DELETE', `/projects/${slug}/keys/${issued.body.api_key}`, { key });
    const entries = await read('?action=key', key);
    expect(entries.map(({ action }: { action: string }) => action)).toEqual(['key.revoke', 'key.issue']);
    expect(entries[1].details).toEqual({ name, scopes: ['query'] });
    expect(entries[0].target).toBe('rh_proj_…');
  });

  it('cannot fill it with what is refused', async () => {
    const { slug, key } = await rowhouse.project();
    const publishable = await rowhouse.call('POST', `/projects/${slug}/keys`, {
      key,
      body: { name: 'p', kind: 'publishable' },
    });
    for (let n = 0; n < 5; n++) {
      await rowhouse.call('DELETE', `/projects/${slug}/keys/x`, { key: publishable.body.api_key });
      await rowhouse.call('DELETE', `/projects/${slug}`, { key });
    }
    const entries = await read(`?project=${slug}&outcome=refused`);
    expect(entries.map(({ action }: { action: string }) => action)).toEqual(['project.delete']);
  });
});

describe('the log', () => {
  it('is filtered and paged, and has nothing of another account', async () => {
    const [one, other] = [await openAccount('Log one'), await openAccount('Log other')];
    // So that ids of four and of five digits are among them.
    await rowhouse.service.deps.control.query(
      sql`select setval(pg_get_serial_sequence('audit_log', 'id'), 9997)`,
    );
    for (let n = 0; n < 5; n++)
      await rowhouse.call('POST', '/projects', { key: one, body: { name: `P ${n}`, slug: `log-one-${n}` } });
    await rowhouse.call('DELETE', '/projects/log-one-3', { key: one });
    const actionsOf = (entries: { action: string }[]) => entries.map(({ action }) => action);
    expect(actionsOf(await read('', other))).toEqual(['account.create']);
    const [entry] = await read('?project=log-one-3&action=project.create', one);
    expect(entry).toMatchObject({ project: 'log-one-3', action: 'project.create' });
    expect(await read('?project=log-one-3', other)).toEqual([]);
    const stranger = await rowhouse.call('GET', `${api}/audit?account=${entry.account}`, { key: other });
    expect(actionsOf(stranger.body.entries)).toEqual(['account.create']);
    expect(stranger.body.entries[0].account).not.toBe(entry.account);
    expect(await read('?action=project', one)).toHaveLength(6);
    expect(await read('?outcome=failed', one)).toEqual([]);
    expect(await read(`?action=project&to=${encodeURIComponent(entry.at)}`, one)).toHaveLength(3);
    const seen = [];
    for (let query = '?limit=2'; ; ) {
      const { body } = await rowhouse.call('GET', `${api}/audit${query}`, { key: one });
      seen.push(...body.entries);
      if (body.cursor === null) break;
      query = `?limit=2&cursor=${body.cursor}`;
    }
    const ids = seen.map(({ id }) => Number(id));
    expect(ids).toEqual([...ids].sort((a, b) => b - a));
    expect([ids.length, ids.some((id) => id > 9999), ids.some((id) => id < 9999)]).toEqual([7, true, true]);
    expect(seen).toEqual(await read('', one));
    const wrong = await rowhouse.call('GET', `${api}/audit?cursor=MTsgZHJvcA`, { key: one });
    expect(wrong.status).toBe(400);
    for (const time of ['7d', '2026-01-31', '2026-01-31T12:00:00', 'yesterday']) {
      const refused = await rowhouse.call('GET', `${api}/audit?from=${time}`, { key: one });
      expect([time, refused.status, refused.body.error?.details]).toEqual([
        ...[time, 400],
        [{ path: 'from', problem: expect.stringContaining('RFC 3339 date-time with a time zone') }],
      ]);
    }
  });

  it('is exported as JSON lines', async () => {
    const key = await openAccount('Lines');
    await rowhouse.call('POST', '/projects', { key, body: { name: 'One' } });
    const { body, headers } = await rowhouse.call('GET', `${api}/audit?action=project`, {
      key,
      headers: { accept: 'application/x-ndjson' },
    });
    expect(headers['content-type']).toContain('ndjson');
    const lines = String(typeof body === 'string' ? body : JSON.stringify(body))
      .trim()
      .split('\n');
    expect(lines.map((line) => JSON.parse(line).action)).toEqual(['project.create']);
  });

  it('cannot be changed, shortened or emptied by the role of the service', async () => {
    const { control } = rowhouse.service.deps;
    for (const statement of [
      sql`update audit_log set action = 'nothing'`,
      sql`delete from audit_log`,
      sql`truncate audit_log`,
    ])
      await expect(control.query(statement)).rejects.toMatchObject({ sqlstate: '42501' });
  });
});
