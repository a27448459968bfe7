// An installation from before there were accounts for customers: what exists becomes the account default, and its keys go on working.
import { expect, it, onTestFinished } from 'vitest';
import { openControl } from '../../src/control/control.ts';
import { hashKey, makeKey, newKeyId, startOf } from '../../src/keys/form.ts';
import { migrate, readMigrations } from '../../src/postgres/admin/migrations.ts';
import { sql } from '../../src/postgres/sql.ts';
import {
  address,
  api,
  asAdmin,
  newControlName,
  openTestService,
  removeTestService,
} from '../support/helpers.ts';

it('keeps the account and its key, which may do what it could before', async () => {
  const controlDatabase = newControlName();
  await asAdmin((admin) => admin.query(sql`create database ${sql.id(controlDatabase)}`));
  const key = makeKey('rh_acct_');
  const before = openControl(address(), controlDatabase);
  const migrations = await readMigrations('control');
  // 0019 brought accounts, 0020 people.
  await before.session((session) =>
    migrate(
      session,
      migrations.filter(({ number }) => number < 19),
    ),
  );
  await before.query(sql`insert into accounts (id, name) values ('default', 'default')`);
  await before.query(sql`insert into settings (name, value) values ('account_key_shown', 'true')`);
  await before.query(sql`
    insert into keys (id, kind, account_id, name, start, hash, scopes)
    values (${newKeyId()}, 'account', 'default', 'account key', ${startOf(key)}, ${hashKey(key)}, '{}')`);
  await before.end();

  const rowhouse = await openTestService({ controlDatabase });
  onTestFinished(async () => {
    const { installation } = rowhouse.service.deps.server;
    await rowhouse.stop();
    await removeTestService(controlDatabase, installation);
  });
  // No new key was made.
  expect(rowhouse.accountKey).toBe('');
  const own = await rowhouse.call('GET', `${api}/account`, { key });
  expect(own.body).toMatchObject({ account: { id: 'default', is_operator: true }, role: 'owner' });
  const made = await rowhouse.call('POST', '/projects', { key, body: { name: 'After' } });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  // It managed servers and backups before, and still does.
  for (const path of ['/servers', '/accounts', '/account/keys', '/account/members', '/audit'])
    expect((await rowhouse.call('GET', api + path, { key })).status, path).toBe(200);
  const invited = await rowhouse.call('POST', `${api}/account/invitations`, {
    key,
    body: { email: 'ada@example.com', role: 'owner' },
  });
  expect(invited.status).toBe(201);
});
