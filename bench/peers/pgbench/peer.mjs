// The limit: PostgreSQL's own load generator, prepared statements, 10 connections, no HTTP and no JSON.
import { execFileSync, spawnSync } from 'node:child_process';
import { statements } from '../../items.mjs';
import { pgbench } from '../../load.mjs';

export const about = { name: 'pgbench', what: 'no HTTP, no JSON: the limit' };

export function install() {
  const { error } = spawnSync('pgbench', ['--version']);
  if (error) throw new Error('pgbench is not on this machine (Debian: postgresql-client)');
}

export const versions = () => [execFileSync('pgbench', ['--version'], { encoding: 'utf8' }).trim()];

export async function start({ databaseUrl, folder }) {
  const measure = (workload, { seconds }) => pgbench(folder, databaseUrl, statements[workload], { seconds });
  return { pid: null, workloads: Object.keys(statements), measure, stop: async () => {} };
}
