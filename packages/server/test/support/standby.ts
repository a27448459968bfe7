// A primary and a standby that replicates from it, each an embedded PostgreSQL of its own. A killed server is started again
// by its supervisor: as a standby, as a cluster manager would.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import type { Address } from '../../src/postgres/admin/database.ts';
import { type Sql, sql } from '../../src/postgres/sql.ts';
import { type Embedded, startEmbedded } from '../../src/servers/embedded/embedded.ts';
import { findRunAs } from '../../src/servers/embedded/run-as.ts';
import { parseDatabaseUrl } from '../../src/servers/external.ts';
import { asAdmin, until } from './helpers.ts';
import { freePort, postmasterPid } from './process.ts';

export type Node = { folder: string; port: number; engine: Embedded };
export type Pair = {
  masterKey: Buffer;
  nodes: readonly [Node, Node];
  /** As ROWHOUSE_DATABASE_URL has it. */
  url: string;
  /** A new one for each process. */
  address(): Address;
};

type Options = { synchronous?: boolean; onEnd?: (close: () => Promise<void>) => void };

/** `synchronous`: a commit waits for the standby. `onEnd`: takes what stops both. */
export async function startPair({ synchronous = true, onEnd = onTestFinished }: Options = {}): Promise<Pair> {
  const masterKey = randomBytes(32);
  const newFolder = (name: string) => {
    const folder = mkdtempSync(path.join(tmpdir(), `rowhouse-${name}-`));
    onEnd(async () => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
    return folder;
  };
  const [first, second] = [newFolder('primary'), newFolder('standby')];
  const ports = [await freePort(), await freePort()] as const;
  const start = async (folder: string, port: number, source: number | null): Promise<Node> => {
    writeFileSync(path.join(folder, 'postgres.port'), `${port}\n`);
    const engine = await startEmbedded({
      dataFolder: folder,
      masterKey,
      connections: 20,
      reserveBytes: 0,
      say: () => {},
      onEvent: () => {},
      more: {
        wal_retrieve_retry_interval: '100ms',
        wal_receiver_status_interval: '1s',
        recovery_target_timeline: 'latest',
        ...(source !== null && { primary_conninfo: conninfo(source) }),
      },
    });
    return { folder, port, engine };
  };
  const alone = await start(first, ports[0], null);
  const { user, password } = alone.engine.address;
  const conninfo = (port: number) =>
    `host=127.0.0.1 port=${port} user=${user} password=${password} application_name=other`;
  await alone.engine.stop();
  execFileSync('cp', ['-a', `${first}/.`, second]);
  rmSync(path.join(second, 'ballast'), { recursive: true, force: true });
  becomeStandby(second);
  const nodes: [Node, Node] = [
    await start(first, ports[0], ports[1]),
    await start(second, ports[1], ports[0]),
  ];
  onEnd(async () => {
    for (const { engine } of nodes) await engine.stop();
  });
  const at = nodes[0].engine.address;
  await until('the standby streams', () =>
    asAdmin(async (admin) => {
      const [row] = await admin.query(sql`select from pg_stat_replication where state = 'streaming'`);
      return row !== undefined;
    }, at),
  );
  if (synchronous) {
    await asAdmin(async (admin) => {
      await admin.change(sql`alter system set synchronous_standby_names = 'other'`);
      await admin.query(sql`select pg_reload_conf()`);
    }, at);
  }
  const url = `postgres://${user}:${password}@127.0.0.1:${ports[0]},127.0.0.1:${ports[1]}/postgres`;
  return { masterKey, nodes, url, address: () => parseDatabaseUrl(url) };
}

/** From its next start. */
function becomeStandby(folder: string): void {
  const file = path.join(folder, 'postgres', 'standby.signal');
  writeFileSync(file, '', { mode: 0o600 });
  const runAs = findRunAs(path.join(folder, 'postgres'));
  if (runAs) execFileSync('chown', [`${runAs.uid}:${runAs.gid}`, file]);
}

/** From now on, the standby gets nothing of what is committed on the primary. */
export async function cutReplication({ nodes: [{ folder, engine }] }: Pair): Promise<void> {
  const file = path.join(folder, 'postgres', 'pg_hba.conf');
  writeFileSync(file, `host replication all all reject\n${readFileSync(file, 'utf8')}`);
  await asAdmin(async (admin) => {
    await admin.query(sql`select pg_reload_conf()`);
    await until('the standby is cut off', async () => {
      const rows = await admin.query(sql`select pg_terminate_backend(pid) from pg_stat_replication`);
      return rows.length === 0;
    });
  }, engine.address);
}

/** The standby has everything that is committed on the primary now. */
export async function caughtUp({ nodes: [primary, standby] }: Pair): Promise<void> {
  const read = (node: Node, position: Sql) =>
    asAdmin(async (admin) => (await admin.query<{ at: number }>(position))[0]?.at ?? 0, node.engine.address);
  const wanted = await read(primary, sql`select (pg_current_wal_lsn() - '0/0')::float8 as at`);
  const replayed = sql`select (pg_last_wal_replay_lsn() - '0/0')::float8 as at`;
  await until('the standby has caught up', async () => (await read(standby, replayed)) >= wanted);
}

/** The primary dies, and the other node is promoted. The old primary comes back as a standby. */
export async function failOver({ nodes: [old, next] }: Pair): Promise<void> {
  becomeStandby(old.folder);
  const pid = postmasterPid(old.folder);
  if (!pid) throw new Error('The primary does not run.');
  process.kill(pid, 'SIGKILL');
  await promote(next);
}

export async function promote({ engine }: Node): Promise<void> {
  await asAdmin(async (admin) => {
    // The standby that its commits would wait for is gone.
    await admin.query(sql`select pg_promote(true, 60)`);
    await admin.change(sql`alter system set synchronous_standby_names = ''`);
    await admin.query(sql`select pg_reload_conf()`);
  }, engine.address);
}
