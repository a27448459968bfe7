// The primary of the first server is lost while requests run, and its standby is promoted. Two processes of the service
// work on it.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { pollMs } from '../../src/control/change-feed.ts';
import { type Sql, sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { checkExternal, parseDatabaseUrl } from '../../src/servers/external.ts';
import { restrictPublicAccess } from '../../src/servers/template/public-access.ts';
import {
  asAdmin,
  openSecondProcess,
  openTestService,
  soon,
  type TestService,
  until,
} from '../support/helpers.ts';
import { connectPg, loginOf, openProxy } from '../support/proxy-clients.ts';
import {
  caughtUp,
  cutReplication,
  failOver,
  type Node,
  type Pair,
  promote,
  startPair,
} from '../support/standby.ts';
import { startLedger } from '../support/write-ledger.ts';

type Ledger = { slug: string; id: string; key: string };

async function startBoth(pair: Pair): Promise<[TestService, TestService]> {
  const { masterKey } = pair;
  const first = await openTestService({ at: pair.address(), masterKey, spares: 0 });
  onTestFinished(first.stop);
  const second = await openSecondProcess(first, { at: pair.address() });
  onTestFinished(second.stop);
  return [first, second];
}

const query = (on: TestService, { slug, key }: Ledger, text: string, more: object = {}) =>
  on.call('POST', `/projects/${slug}/query`, { key, body: { query: text, ...more } });

/** What a node itself says, past the service. */
const ask = <T>({ engine }: Node, text: Sql, database = 'postgres') =>
  asAdmin(async (admin) => (await admin.query<T>(text))[0] as T, { ...engine.address, database });

const missing = ({ service }: TestService) => service.deps.server.findings.map((finding) => finding.missing);

async function isUnavailable(on: TestService, ledger: Ledger, accountKey: string): Promise<void> {
  const { slug, key } = ledger;
  const answers = [
    await query(on, ledger, 'insert into ledger values (-2)'),
    await query(on, ledger, 'select 1'),
    await on.call('POST', `/projects/${slug}/tables/ledger`, { key, body: { id: -2 } }),
    await on.call('POST', '/projects', { key: accountKey, body: { name: 'Another' } }),
    await on.call('GET', '/readyz'),
  ];
  for (const { status, body } of answers)
    expect([status, body.error?.code], JSON.stringify(body)).toEqual([503, 'unavailable']);
}

test('no acknowledged write is lost, and a commit that is not replicated is not acknowledged', async () => {
  const pair = await startPair();
  const [first, second] = await startBoth(pair);
  expect(missing(first)).not.toContain('synchronous replication');
  const ledger = await first.project('Ledger');
  await query(first, ledger, 'create table ledger (id int primary key)');
  const { user, password, port } = pair.nodes[0].engine.address;
  const only = () => parseDatabaseUrl(`postgres://${user}:${password}@127.0.0.1:${port}/postgres`);
  /** It knows one host, which becomes a standby. */
  const pinned = await openSecondProcess(first, { at: only() });
  onTestFinished(pinned.stop);
  expect((await query(pinned, ledger, 'select 1')).status).toBe(200);

  // The standby receives nothing for a while: commits wait for it, until their time is up.
  const { pid } = await ask<{ pid: number }>(pair.nodes[1], sql`select pid from pg_stat_wal_receiver`);
  process.kill(pid, 'SIGSTOP');
  const late = await query(first, ledger, 'insert into ledger values (-1)', { timeout_ms: 500 }).finally(() =>
    process.kill(pid, 'SIGCONT'),
  );
  expect(late.body.error?.code, JSON.stringify(late.body)).toBe('outcome_unknown');

  const writes = await startLedger([first, second], ledger);
  onTestFinished(writes.stop);
  const { acknowledged } = writes;
  await until('writes run', async () => acknowledged.length > 50);
  await failOver(pair);
  const before = acknowledged.length;
  // Both processes, in either order.
  await until('writes run again', async () => acknowledged.length > before + 50, 10_000);
  for (const on of [first, second])
    await until('ready', async () => (await on.call('GET', '/readyz')).status === 200);
  await until('the old primary is a standby', async () => {
    const role = sql`select pg_is_in_recovery() as standby`;
    return (await ask<{ standby: boolean }>(pair.nodes[0], role).catch(() => null))?.standby;
  });
  await isUnavailable(pinned, ledger, first.accountKey);
  await expect(checkExternal(only())).rejects.toThrow('The server is a standby');
  const since = acknowledged.length;
  await until('writes run beside it', async () => acknowledged.length > since + 50);
  await writes.settle([-1]);
});

test('a primary that was replaced but runs on gets no writes, and a revocation reaches all processes', async () => {
  const pair = await startPair({ synchronous: false });
  const [old, promoted] = pair.nodes;
  await asAdmin(async (admin) => {
    await admin.change(sql`create role watcher login`);
    await admin.change(sql`create role rewinder login`);
    await admin.change(sql`grant execute on function pg_read_binary_file(text) to rewinder`);
  }, old.engine.address);
  const [first, second] = await startBoth(pair);
  expect(missing(first)).toContain('synchronous replication');
  const ledger = await first.project('Ledger');
  await query(first, ledger, 'create table ledger (id int)');
  const keys = `/projects/${ledger.slug}/keys`;
  const made = await first.call('POST', keys, { body: { name: 'doomed', scopes: ['query'] } });
  const doomed = { ...ledger, key: made.body.api_key };

  // Roles of others keep the access that they had. Those of projects have none.
  const access = sql`
    select array_agg(rolname::text order by rolname) as roles from pg_roles
    where rolname in ('watcher', 'rewinder', 'latecomer', 'copier', ${`p_${ledger.id}`})
      and has_database_privilege(oid, 'postgres', 'connect')`;
  expect(await ask(old, access)).toEqual({ roles: ['rewinder', 'watcher'] });
  // Only those later roles that standbys need are let in.
  await asAdmin(async (admin) => {
    await admin.change(sql`create role latecomer login`);
    await admin.change(sql`create role copier login replication`);
  }, old.engine.address);
  await restrictPublicAccess(first.service.deps.server.maintenance);
  expect(await ask(old, access)).toEqual({ roles: ['copier', 'rewinder', 'watcher'] });

  // The old primary gives out transaction ids that its standby never hears of, and will give out again.
  await caughtUp(pair);
  await cutReplication(pair);
  for (const on of [first, second]) expect((await query(on, doomed, 'select 1')).status).toBe(200);
  await ask(
    old,
    sql`do $$ begin for i in 1..500 loop perform pg_current_xact_id(); commit; end loop; end $$`,
  );
  // The feed of each process has seen them. Without this pause the test would prove less.
  await sleep(3 * pollMs);

  const proxy = await openProxy(first);
  const login = await loginOf(first, ledger.slug);
  const direct = await connectPg(proxy.port, login);
  await promote(promoted);
  const promotedAt = performance.now();
  const port = async (on: TestService) =>
    (await query(on, ledger, 'select inet_server_port() as port')).body.rows?.[0]?.port;
  for (const on of [first, second])
    await until('the new primary is used', async () => (await port(on)) === promoted.port, soon);
  expect(performance.now() - promotedAt).toBeLessThan(2 * soon);

  const keeper = sql`
    select count(*)::int as count from pg_locks
    where locktype = 'advisory' and granted and objid = hashtext('rowhouse keeper')::oid`;
  await until(
    'a process does the background work there',
    async () => (await ask<{ count: number }>(promoted, keeper)).count === 1,
    2 * soon,
  );

  const hasEnded = () =>
    direct.query('select 1').then(
      () => false,
      () => true,
    );
  await until('direct connections to the old primary end', hasEnded, soon);
  const again = await connectPg(proxy.port, login);
  const { rows } = await again.query('select inet_server_port() as port');
  expect(rows).toEqual([{ port: promoted.port }]);
  await again.end();

  const revoked = await first.call('DELETE', `${keys}/${made.body.key.id}`);
  expect(revoked.status, JSON.stringify(revoked.body)).toBe(200);
  for (const on of [first, second])
    await until('the key is refused', async () => (await query(on, doomed, 'select 1')).status === 401, soon);

  const count = (node: Node) =>
    ask<{ count: number }>(node, sql`select count(*)::int as count from ledger`, databaseOf(ledger.id));
  for (const on of [first, second, first, second])
    expect((await query(on, ledger, 'insert into ledger values (1)')).status).toBe(200);
  expect(await count(promoted)).toEqual({ count: 4 });
  expect(await count(old)).toEqual({ count: 0 });

  // With the new primary gone, the old one is not used again: its data is out of date.
  await promoted.engine.stop();
  for (const on of [first, second]) await isUnavailable(on, ledger, first.accountKey);
  expect(await count(old)).toEqual({ count: 0 });
});
