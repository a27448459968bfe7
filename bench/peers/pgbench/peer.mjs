// The limit: PostgreSQL's own load generator, prepared statements, 10 connections, no HTTP and no JSON.
import { execFileSync, spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { lastId, statements } from '../../items.mjs';

export const about = { name: 'pgbench', what: 'no HTTP, no JSON: the limit' };

export const isInstalled = () => !spawnSync('pgbench', ['--version']).error;

export function install() {
  if (!isInstalled()) throw new Error('pgbench is not on this machine (Debian: postgresql-client)');
}

export const versions = () => [execFileSync('pgbench', ['--version'], { encoding: 'utf8' }).trim()];

export async function start({ databaseUrl, folder }) {
  const script = path.join(folder, 'pgbench.sql');
  const measure = (workload, { seconds }) => {
    const text = statements[workload];
    const set = text.includes('$1') ? `\\set id random(1, ${lastId})\n` : '';
    writeFileSync(script, `${set}${text.replace('$1', ':id')};\n`);
    const args = ['-n', '-M', 'prepared', '-c', '10', '-j', '1', '-T', String(seconds), '-f', script];
    const out = execFileSync('pgbench', [...args, databaseUrl], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const rate = Number(/tps = ([\d.]+)/.exec(out)[1]);
    return { rate, requests: rate * seconds, refused: 0 };
  };
  return { pid: null, workloads: Object.keys(statements), measure, stop: async () => {} };
}
