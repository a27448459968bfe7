// Reads that a standby answers: when, how old they may be, and for whom never. The standby stops to replay while the test
// wants it to be out of date.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { type Answer, asAdmin, openTestService, soon, type TestService, until } from '../support/helpers.ts';
import { postmasterPid } from '../support/process.ts';
import { caughtUp, type Node, type Pair, startPair } from '../support/standby.ts';

type Project = { slug: string; id: string; key: string };

let pair: Pair;
let primary: Node;
let standby: Node;
let rowhouse: TestService;
let shop: Project;
const closers: (() => Promise<void>)[] = [];
beforeAll(async () => {
  pair = await startPair({ onEnd: (close) => closers.push(close) });
  [primary, standby] = pair.nodes;
  rowhouse = await openTestService({ at: pair.address(), masterKey: pair.masterKey, spares: 0 });
  closers.push(rowhouse.stop);
  shop = await rowhouse.project('Shop');
  for (const text of [
    'create table notes (id int primary key, body text)',
    'alter table notes enable row level security',
    'create policy strangers on notes for select to anon using (true)',
    'grant select on notes to anon',
    "insert into notes values (1, 'old')",
    'create view here as select inet_server_port() as port',
  ])
    expect((await query(shop, text)).body.error).toBeUndefined();
});
afterAll(async () => {
  for (const close of closers.reverse()) await close();
});

type More = { key?: string; headers?: Record<string, string>; body?: object };
const query = ({ slug, key }: Project, text: string, { headers, body, key: other = key }: More = {}) =>
  rowhouse.call('POST', `/projects/${slug}/query`, {
    key: other,
    ...(headers && { headers }),
    body: { query: text, ...body },
  });
const stale = (maxAge: string, min?: string) => ({
  'rowhouse-max-staleness': maxAge,
  ...(min && { 'rowhouse-min-position': min }),
});
const readOnly = { read_only: true };
const portOf = (answer: Answer) => answer.body.rows?.[0]?.port ?? answer.body;
const port = async (maxAge: string, min?: string) =>
  portOf(
    await query(shop, 'select inet_server_port() as port', { headers: stale(maxAge, min), body: readOnly }),
  );
const noteOf = (answer: Answer) => answer.body.rows?.[0]?.body ?? answer.body;
const note = async (maxAge: string, min?: string) =>
  noteOf(await query(shop, 'select body from notes', { headers: stale(maxAge, min), body: readOnly }));
const onStandby = <T>(text: ReturnType<typeof sql>) =>
  asAdmin((admin) => admin.query<T>(text), standby.engine.address);
/** Runs `use` while the standby receives, but does not replay. */
const whilePaused = async (use: () => Promise<void>) => {
  await caughtUp(pair);
  await onStandby(sql`select pg_wal_replay_pause()`);
  try {
    await until('replay stands still', async () => {
      const [row] = await onStandby<{ state: string }>(sql`select pg_get_wal_replay_pause_state() as state`);
      return row?.state === 'paused';
    });
    await use();
  } finally {
    await onStandby(sql`select pg_wal_replay_resume()`);
  }
};

describe('a read with Rowhouse-Max-Staleness', () => {
  it('goes to the standby, if it is a read and the standby is fresh enough', async () => {
    await until('reads go to the standby', async () => (await port('5s')) === standby.port);
    const page = await rowhouse.call('GET', `/projects/${shop.slug}/tables/here`, {
      key: shop.key,
      headers: stale('5s'),
    });
    expect(portOf(page)).toBe(standby.port);
    expect(await port('0s')).toBe(primary.port);
    const text = 'select inet_server_port() as port';
    expect(portOf(await query(shop, text, { headers: stale('5s') })), 'not read_only').toBe(primary.port);
    expect(portOf(await query(shop, text, { body: readOnly })), 'no header').toBe(primary.port);
    for (const [maxAge, min] of [
      ['soon'],
      ['-1s'],
      ['5s, 9s'],
      ['5s', '1'],
      ['5s', "1-1-1' or true"],
    ] as const)
      expect(await port(maxAge, min)).toMatchObject({ error: { code: 'invalid_request' } });
    // An error of the statement is the primary's.
    const wrong = await query(shop, 'select 1/0', { headers: stale('5s'), body: readOnly });
    expect([wrong.status, wrong.body.error.code]).toEqual([400, 'sql_error']);
    // A session is given back clean, whatever ran in it.
    const traces = [
      `select set_config('my.trace', 'left', false) as port`,
      `select current_setting('my.trace', true) as port`,
    ];
    for (const [at, trace] of traces.entries())
      expect(
        (await query(shop, trace, { headers: stale('5s'), body: readOnly })).body.rows[0].port ?? '',
      ).toBe(at === 0 ? 'left' : '');
  });

  it('sees the own change with its position, and is never for end users, keys of some tables or revoked keys', async () => {
    const keys = `/projects/${shop.slug}/keys`;
    const make = async (body: object) => (await rowhouse.call('POST', keys, { body })).body;
    const publishable = await make({ name: 'site', kind: 'publishable' });
    const some = await make({ name: 'some', scopes: ['tables:read'], tables: ['notes'] });
    const doomed = await make({ name: 'doomed', scopes: ['query'] });
    await whilePaused(async () => {
      const change = await query(shop, "update notes set body = 'new'", { headers: stale('1m') });
      const position = String(change.headers['rowhouse-position']);
      expect(position).toMatch(/^\d+-0{9}1-\d{16}$/);
      const unasked = await query(shop, "update notes set body = 'new'");
      expect(unasked.headers['rowhouse-position']).toBeUndefined();
      const inserted = await rowhouse.call('POST', `/projects/${shop.slug}/tables/notes`, {
        key: shop.key,
        headers: stale('1m'),
        body: { id: 2, body: 'second' },
      });
      expect(inserted.headers['rowhouse-position']).toMatch(/^\d+-0{9}1-\d{16}$/);

      expect(await note('1m')).toBe('old');
      const [server, timeline, lsn] = position.split('-');
      expect(await note('1m', position)).toBe('new');
      expect(await note('1m', 'unknown')).toBe('new');
      expect(await note('1m', `${Number(server) + 1}-${timeline}-${lsn}`), 'of another server').toBe('new');
      expect(
        await note('1m', `${server}-${String(2).padStart(10, '0')}-${lsn}`),
        'of a promotion that is not known yet',
      ).toBe('new');
      await until('the standby is too old', async () => (await note('500ms')) === 'new', soon);

      for (const { api_key: key } of [publishable, some]) {
        const page = await rowhouse.call('GET', `/projects/${shop.slug}/tables/notes?id=eq.1`, {
          key,
          headers: stale('1m'),
        });
        expect(noteOf(page)).toBe('new');
      }
      const revoked = { key: doomed.api_key, headers: stale('1m'), body: readOnly };
      expect((await query(shop, 'select 1', revoked)).status).toBe(200);
      expect((await rowhouse.call('DELETE', `${keys}/${doomed.key.id}`)).status).toBe(200);
      await until(
        'the key is refused',
        async () => (await query(shop, 'select 1', revoked)).status === 401,
        soon,
      );
    });
    const { headers } = await query(shop, "update notes set body = 'newer'", { headers: stale('1m') });
    const position = String(headers['rowhouse-position']);
    await until('the standby has it', async () => (await port('5s', position)) === standby.port);
    expect(await note('5s', position)).toBe('newer');
  });

  it('that runs too long is ended on the standby, even if it resists', async () => {
    const stay = `
      create function stay() returns int language plpgsql as $$ begin
        perform set_config('client_connection_check_interval', '0', false);
        loop
          begin perform pg_sleep(600); exception when query_canceled then null; end;
        end loop;
      end $$`;
    expect((await query(shop, stay)).body.error).toBeUndefined();
    await caughtUp(pair);
    const running = async () => {
      const [row] = await onStandby<{ count: number }>(sql`
        select count(*)::int as count from pg_stat_activity
        where query like '%stay()%' and state = 'active' and pid <> pg_backend_pid()`);
      return row?.count;
    };
    const resisting = query(shop, 'select stay()', {
      headers: stale('10s'),
      body: { read_only: true, timeout_ms: 2_000 },
    });
    await until('it runs on the standby', async () => (await running()) === 1, soon);
    expect((await resisting).body.error.code).toBe('query_timeout');
    await until('it has ended', async () => (await running()) === 0, 2 * soon);
    expect(await port('10s'), 'others are served').toBe(standby.port);
  });

  it('is answered by the primary if the standby dies, and by the standby when it is back', async () => {
    const wait =
      'create function wait() returns int language plpgsql as $$ begin perform pg_sleep(0.05); return 1; end $$';
    expect((await query(shop, wait)).body.error).toBeUndefined();
    await caughtUp(pair);
    let isOver = false;
    const answers = new Set<string>();
    const read = async () => {
      while (!isOver) {
        const { status, body } = await query(shop, 'select wait(), inet_server_port() as port', {
          headers: stale('5s'),
          body: readOnly,
        });
        answers.add(status === 200 ? String(body.rows[0].port) : JSON.stringify(body));
      }
    };
    const readers = [read(), read(), read()];
    await until('the standby answers', async () => answers.has(String(standby.port)));
    const pid = postmasterPid(standby.folder);
    if (pid) process.kill(pid, 'SIGKILL');
    await until('the primary answers', async () => answers.has(String(primary.port)));
    answers.delete(String(standby.port));
    await until('the standby answers again', async () => answers.has(String(standby.port)), 20_000);
    isOver = true;
    await Promise.all(readers);
    expect([...answers].sort()).toEqual([String(primary.port), String(standby.port)].sort());
  });

  it('does not stay with a database that was exchanged for another', async () => {
    const { body } = await rowhouse.call('POST', `/projects/${shop.slug}/branches`, {
      body: { name: 'Next' },
    });
    const branch = { slug: body.project.slug, id: body.project.id, key: body.api_key };
    expect((await query(branch, "update notes set body = 'of the branch'")).body.error).toBeUndefined();
    await whilePaused(async () => {
      const { status } = await rowhouse.call('POST', `/projects/${branch.slug}/promote`);
      expect(status).toBe(200);
      expect(await note('0s')).toBe('of the branch');
      // A session at the standby, in the database that has the name there.
      expect(await note('2m')).toBe('newer');
    });
    await until('the standby has caught up', async () => (await port('1s')) === standby.port);
    expect(await note('1s')).toBe('of the branch');
    expect(await port('1s')).toBe(standby.port);
  });
});
