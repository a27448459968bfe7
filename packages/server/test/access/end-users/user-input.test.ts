// What users send about themselves: addresses that are none, and passwords that everybody tries.
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../../src/postgres/sql.ts';
import { inside, type TestProject } from '../../support/end-users.ts';
import { useTestService } from '../../support/helpers.ts';

const rowhouse = useTestService();
const password = 'correct horse battery';
let shop: TestProject;
beforeAll(async () => {
  shop = await rowhouse.project('Shop');
});

const auth = (method: string, path: string, body: unknown, token?: string) =>
  rowhouse.call(method, `/projects/${shop.slug}/auth/${path}`, {
    key: shop.key,
    body,
    headers: { ...(token && { authorization: `Bearer ${token}` }) },
  });

describe('an invalid e-mail address', () => {
  const none = [
    '<script>@x.io',
    'a@x.io>',
    'a@x..io',
    'a@-x.io',
    'a@x.io.',
    '"a"@x.io',
    'a@[::1]',
    `${'a'.repeat(65)}@x.io`,
  ];

  it.each(none)('%s is refused wherever one is set', async (email) => {
    const { body } = await auth('POST', 'users', { email: `${Math.random()}@example.com`, password });
    const signed = await auth('POST', 'signin', { email: body.user.email, password });
    const token = signed.body.session.access_token as string;
    for (const answer of [
      await auth('POST', 'signup', { email, password }),
      await auth('POST', 'users', { email }),
      await auth('PATCH', `users/${body.user.id}`, { email }),
      await auth('PATCH', 'user', { email }, token),
    ])
      expect([answer.status, answer.body.error?.code, answer.body.error?.details?.[0]?.path]).toEqual([
        ...[400, 'invalid_request', 'email'],
      ]);
    // Looked for, it is an address like any other that nobody has.
    expect((await auth('POST', 'signin', { email, password })).body.error.code).toBe('invalid_credentials');
  });

  it('stays usable for a user who already has it', async () => {
    const { body } = await auth('POST', 'signup', { email: 'old@example.com', password });
    const odd = '<old>@x..io';
    await inside(
      shop,
      sql`update auth.users set email = ${odd}, email_key = ${odd} where id = ${body.user.id}`,
    );
    const signed = await auth('POST', 'signin', { email: odd.toUpperCase(), password });
    expect([signed.status, signed.body.user?.email]).toEqual([200, odd]);
    const token = signed.body.session.access_token as string;
    const same = await auth('PATCH', 'user', { email: odd, data: { a: 1 } }, token);
    expect([same.status, same.body.user?.data]).toEqual([200, { a: 1 }]);
    const fresh = 'correct horse staple';
    expect((await auth('PATCH', 'user', { password: fresh, current_password: password }, token)).status).toBe(
      200,
    );
    const { code } = (await auth('POST', 'recover', { email: odd })).body;
    expect((await auth('POST', 'recover', { code, password })).status).toBe(200);
    expect((await auth('PATCH', `users/${body.user.id}`, { email: 'new@example.com' })).status).toBe(200);
    expect((await auth('PATCH', `users/${body.user.id}`, { email: odd })).status).toBe(400);
  });
});

describe('common passwords with something added', () => {
  it('are refused wherever one is set, and good ones are not', async () => {
    const owner = await auth('POST', 'signup', { email: 'owner@example.com', password });
    const token = owner.body.session.access_token as string;
    expect((await auth('PATCH', 'settings', { refuse_common_passwords: true })).status).toBe(200);
    for (const common of [
      'Password2024!',
      'dragon1990!!',
      'P@$$w0rd99',
      'passwordpassword',
      '12345678!!',
      'Summer2025',
    ]) {
      const { code } = (await auth('POST', 'recover', { email: 'owner@example.com' })).body;
      await inside(shop, sql`delete from auth.attempts`);
      for (const answer of [
        await auth('POST', 'signup', { email: 'new@x.io', password: common }),
        await auth('POST', 'users', { email: 'new@x.io', password: common }),
        await auth('PATCH', `users/${owner.body.user.id}`, { password: common }),
        await auth('PATCH', 'user', { password: common, current_password: password }, token),
        await auth('POST', 'recover', { code, password: common }),
      ])
        expect([answer.status, answer.body.error?.details?.[0]?.path], common).toEqual([400, 'password']);
    }
    for (const good of ['tree-lamp-violin-9', 'dragon monkey summer', 'kq9vz2mw'])
      expect((await auth('POST', 'signup', { email: `${good.length}@x.io`, password: good })).status).toBe(
        201,
      );
  });
});
