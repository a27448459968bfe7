// A cluster of Patroni for a test, or a visible reason why there is none. scripts/patroni-cluster.mjs runs it.
import path from 'node:path';
import { until } from '../support/helpers.ts';
import { root } from '../support/toolchains.ts';

export type PatroniCluster = {
  /** As ROWHOUSE_DATABASE_URL has it. */
  url: string;
  /** Why its nodes cannot be cut off from each other; null if they can. */
  noNetworks: string | null;
  primary(): Promise<string>;
  isPrimary(name: string): Promise<boolean>;
  isReplica(name: string): Promise<boolean>;
  /** Waits until there is a primary with two standbys. */
  isComplete(): Promise<unknown>;
  /** Ends PostgreSQL alone, or Patroni with it, without warning. */
  kill(name: string, what: 'postgres' | 'node'): void;
  start(name: string): void;
  switchover(from: string): Promise<void>;
  /** Lets etcd hang, and continue. */
  signalEtcd(signal: 'SIGSTOP' | 'SIGCONT'): void;
  /** Cuts a node off from everything, or only from etcd and the other nodes. */
  cut(name: string, from: 'everything' | 'others'): void;
  heal(name: string, from: 'everything' | 'others'): void;
  stop(): Promise<void>;
};

/** null: there can be none here, and the reason was printed. `without`: what then stays untested. */
export async function openPatroni(
  without: string,
  options: { networks?: boolean } = {},
): Promise<PatroniCluster | null> {
  const { openCluster } = (await import(path.join(root, 'scripts/patroni-cluster.mjs'))) as {
    openCluster(options: { networks?: boolean }): Promise<PatroniCluster | string>;
  };
  const cluster = await openCluster(options);
  if (typeof cluster !== 'string') return cluster;
  console.warn(`SKIPPED: ${cluster}, so ${without}.`);
  return null;
}

const minutes = 60_000;

export const untilReplaced = (cluster: PatroniCluster, old: string) =>
  until('another one is the primary', async () => (await cluster.primary()) !== old, 2 * minutes);

export const untilRejoined = (cluster: PatroniCluster, name: string) =>
  until(`${name} is a standby`, () => cluster.isReplica(name), 3 * minutes);
