// ROWHOUSE_REAL_TIME: the thread that answers requests gets a core as soon as there is something for it to do. Otherwise, with many
// projects in use, it is ready to run and waits for a core while PostgreSQL's processes come and go (docs/performance.md).
import { spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';

/** The lowest of Linux's real-time priorities. */
const priority = 1;

/**
 * For the main thread of this process alone: its other threads keep theirs, and what it starts from here on begins with the usual
 * one. Returns null, or why it is not possible.
 */
export function takeRealTimePriority(): string | null {
  if (process.platform !== 'linux') return 'only Linux supports it';
  if (availableParallelism() < 2) return 'PostgreSQL needs a second core';
  const args = ['--reset-on-fork', '--rr', '--pid', String(priority), String(process.pid)];
  const { error, status, stderr } = spawnSync('chrt', args, { encoding: 'utf8' });
  if (error) return `the program chrt (Debian: util-linux) could not be run: ${error.message}`;
  return status === 0 ? null : stderr.trim().split('\n')[0] || `chrt ended with ${status}`;
}
