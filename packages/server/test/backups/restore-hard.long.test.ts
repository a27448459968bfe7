// Projects that are hard to dump and to load: a restore brings back what was there, whatever the project has done to itself.
import { expect, it } from 'vitest';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { openInside, publish, unpublish } from '../../src/servers/databases/publication.ts';
import { startLab } from '../support/backup-lab.ts';
import { run } from '../support/exports.ts';
import { ask, end, moment, restore, startService } from './restoring.ts';

it('a project that is hard to dump is restored as it was', { timeout: 400_000 }, async () => {
  const lab = await startLab();
  const rowhouse = await startService(lab);
  const { body } = await rowhouse.call('POST', '/projects', {
    // The name of the restored project is a part of this one, cut between characters.
    body: { name: `a${'😀'.repeat(49)}`, slug: 'hard', limit_mb: 8 },
  });
  const hard = { slug: 'hard', id: body.project.id, key: body.api_key };
  const columns = Array.from({ length: 1_500 }, (_, n) => `c${n} int`).join(', ');
  await run(
    rowhouse,
    hard,
    // As text, 208 MB: 26 times limit_mb. PostgreSQL compresses long values, and a NULL takes a bit.
    'create table packed (id int, long text)',
    "insert into packed select n, repeat('tea ', 1750000) from generate_series(1, 20) n",
    `create table sparse (id int, ${columns})`,
    'insert into sparse (id) select generate_series(1, 15000)',
    // Its check names a table without a schema, and the rows of that table come later.
    'create table zones (id int primary key)',
    'insert into zones values (1), (2)',
    `create function is_zone(zone int) returns boolean language sql stable as 'select exists (select from zones where id = zone)'`,
    'create table orders (id int, zone int constraint "in a ""zone""" check (is_zone(zone)), price int check (price > 0)) partition by range (id)',
    'create table orders_1 partition of orders for values from (1) to (10)',
    'create table orders_2 partition of orders for values from (10) to (20)',
    `comment on constraint "in a ""zone""" on orders is 'it''s a \\ zone'`,
    'insert into orders values (1, 1, 5), (11, 2, 6)',
    // And one whose rows do not fulfil it any more.
    'create table gone (zone int check (is_zone(zone)))',
    'insert into zones values (3)',
    'insert into gone values (3)',
    'delete from zones where id = 3',
    // What the owner may not read itself.
    'create schema hidden',
    'create table hidden.secrets (id serial, word text)',
    "insert into hidden.secrets (word) values ('sesame')",
    "select lo_from_bytea(4711, 'large')",
    'revoke all on large object 4711 from current_user',
    'revoke all on hidden.secrets, hidden.secrets_id_seq from current_user',
    'revoke all on schema hidden from current_user',
    'create table keyless (id int)',
    'create table silent (id int)',
    'alter table silent replica identity nothing',
  );
  // What an online move adds for its time. The restored moment is in the middle of it.
  const inside = openInside(rowhouse.service.deps.server, databaseOf(hard.id));
  await publish(inside, {
    tables: ['public.keyless', 'public.silent'],
    keyless: [
      { name: 'public.keyless', before: 'd' },
      { name: 'public.silent', before: 'n' },
    ],
  });
  const at = await moment(lab);
  await unpublish(inside).finally(() => inside.end());
  await run(rowhouse, hard, 'drop table packed, sparse, orders, gone, zones');

  const { ended, copy } = await restore(rowhouse, hard.slug, at);
  expect([ended.status, ended.error]).toEqual(['done_with_losses', null]);
  expect(ended.result.skipped).toEqual([
    {
      entry: 'CHECK CONSTRAINT public.gone gone_zone_check',
      reason: expect.stringMatching(
        /^It is here, but NOT VALID: it rejects rows of the dump \(check constraint/,
      ),
      lost: true,
    },
  ]);
  const replicated = await run(
    rowhouse,
    copy,
    `select relname, relreplident::text as identity, (select count(*)::int from pg_publication) as publications
     from pg_class where relname in ('keyless', 'silent') order by 1`,
  );
  expect(replicated.rows).toEqual([
    { relname: 'keyless', identity: 'd', publications: 0 },
    { relname: 'silent', identity: 'n', publications: 0 },
  ]);
  const shown = await rowhouse.call('GET', `/projects/${copy.slug}`);
  expect(shown.body.project.name).toMatch(/^a(?:😀)+ 20\d\d-/u);
  const count = async (table: string, value = 'count(*)::int') =>
    (await run(rowhouse, copy, `select ${value} as n from ${table}`)).rows[0].n;
  expect([await count('packed', 'sum(length(long))::int'), await count('sparse')]).toEqual([
    140_000_000, 15_000,
  ]);
  expect([await count('orders'), await count('gone'), await count('zones')]).toEqual([2, 1, 2]);
  const constraints = await run(
    rowhouse,
    copy,
    `select conname, convalidated, obj_description(oid) as comment from pg_constraint
     where contype = 'c' and conrelid in ('orders'::regclass, 'gone'::regclass, 'orders_2'::regclass) order by conrelid::regclass::text, 1`,
  );
  expect(constraints.rows).toEqual([
    { conname: 'gone_zone_check', convalidated: false, comment: null },
    { conname: 'in a "zone"', convalidated: true, comment: "it's a \\ zone" },
    { conname: 'orders_price_check', convalidated: true, comment: null },
    { conname: 'in a "zone"', convalidated: true, comment: null },
    { conname: 'orders_price_check', convalidated: true, comment: null },
  ]);
  const refused = await rowhouse.call('POST', `/projects/${copy.slug}/query`, {
    key: copy.key,
    body: { query: 'insert into orders values (2, 7, 1)' },
  });
  expect(refused.body.error.message).toContain('in a "zone"');
  // Access that was revoked is revoked again, and can be granted.
  const hidden = await rowhouse.call('POST', `/projects/${copy.slug}/query`, {
    key: copy.key,
    body: { query: 'select * from hidden.secrets' },
  });
  expect(hidden.status).toBe(403);
  await run(
    rowhouse,
    copy,
    'grant usage on schema hidden to current_user',
    'grant select on hidden.secrets to current_user',
  );
  expect(await count('hidden.secrets', 'min(word)')).toBe('sesame');

  // A live branch is a dump, too. An export refuses objects that it may not read, with a reason.
  const branch = await rowhouse.call('POST', `/projects/${copy.slug}/branches`, {
    body: { name: 'Live', slug: 'hard-live', mode: 'live' },
  });
  const live = await end(rowhouse, branch.body.job.id);
  expect([live.status, live.error?.message]).toEqual(['failed', expect.stringContaining('secrets_id_seq')]);
  await run(rowhouse, copy, 'drop schema hidden cascade', 'select lo_unlink(4711)');
  const again = await rowhouse.call('POST', `/projects/${copy.slug}/branches`, {
    body: { name: 'Live', slug: 'hard-live', mode: 'live' },
  });
  const done = await end(rowhouse, again.body.job.id);
  expect([done.status, done.error]).toEqual(['done', null]);
  expect((await ask(rowhouse, 'hard-live', { to: at })).status).toBe(409);
});
