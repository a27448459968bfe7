// PostgreSQL yields a little to the service: a statement that computes for long must not keep the service from answering, nor a
// password from being hashed. Where only short statements run, nobody waits for a core, and it changes nothing.
import { readFileSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import { inspectPidFile, readPidFile } from './server-processes.ts';

/** A third of the share of a process at 0, where both want the same core: six statements leave a hash a third of it. */
const nice = 5;
/** A tenth: each statement is a group of its own, and eighteen on a core leave a hash a third of it. */
const groupNice = 10;
const autogroupsFile = '/proc/sys/kernel/sched_autogroup_enabled';
/** From a process that is not root, Linux takes one change in 100 ms, and refuses others with EAGAIN. */
const againMs = 120;

/** All processes of PostgreSQL inherit it, so this comes before the first of them starts. */
export function lowerPostmaster(pid: number): void {
  if (process.platform === 'win32') return;
  // Best effort: PostgreSQL also runs at the usual priority.
  attempt(() => setPriority(pid, nice));
}

export type BackendPriority = {
  /** Call it when something begins that the statements must not starve. */
  lower(): void;
  stop(): void;
};

/**
 * With autogroups, Linux compares nice values only within a session, and each process of PostgreSQL opens one of its own. What it
 * inherited counts for nothing then, so its group is lowered. `clusterFolder` null: PostgreSQL is not ours.
 */
export function openBackendPriority(clusterFolder: string | null): BackendPriority {
  const hasAutogroups = process.platform === 'linux' && read(autogroupsFile).trim() === '1';
  let known: { pid: number; isOurs: boolean } | null = null;
  let lowered = new Set<string>();
  let again: NodeJS.Timeout | null = null;

  /** PostgreSQL's account can write any number into the file: it is looked at before it is believed. */
  const findPostmaster = (folder: string): number | null => {
    const pid = readPidFile(folder)?.pid ?? null;
    if (pid !== null && pid !== known?.pid) known = { pid, isOurs: inspectPidFile(folder)?.kind === 'ours' };
    return known?.isOurs ? pid : null;
  };

  const lower = () => {
    const pid = clusterFolder === null ? null : findPostmaster(clusterFolder);
    if (pid === null) return;
    const children = read(`/proc/${pid}/task/${pid}/children`).trim().split(' ');
    const before = lowered;
    lowered = new Set();
    let isTooSoon = false;
    for (const child of children) {
      if (child === '') continue;
      const refusal = before.has(child)
        ? null
        : attempt(() => writeFileSync(`/proc/${child}/autogroup`, String(groupNice)));
      if (refusal === null) lowered.add(child);
      // Any other refusal stays: the process has ended, or this system allows none.
      else isTooSoon ||= refusal === 'EAGAIN';
    }
    if (isTooSoon) again ??= setTimeout(onAgain, againMs).unref();
  };
  const onAgain = () => {
    again = null;
    lower();
  };

  return {
    lower: () => {
      if (hasAutogroups) lower();
    },
    stop: () => {
      if (again) clearTimeout(again);
    },
  };
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

/** The code of the failure. null: there was none. */
function attempt(action: () => void): string | null {
  try {
    action();
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? '';
  }
}
