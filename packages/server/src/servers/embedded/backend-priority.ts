// PostgreSQL yields a little to the service: a statement that computes for long must not keep the service from answering, nor a
// password from being hashed. Where only short statements run, nobody waits for a core, and it changes nothing.
import { readFileSync, writeFileSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { inspectPidFile, readPidFile } from './server-processes.ts';

/** A third of the share of a process at 0, where both want the same core: six statements leave a hash a third of it. */
const nice = 5;
/** A tenth: each statement is a group of its own, and eighteen on a core leave a hash a third of it. */
const groupNice = 10;
const lowestNice = 19;
const autogroupsFile = '/proc/sys/kernel/sched_autogroup_enabled';
/** From a process that is not root, Linux takes one change in 100 ms, and refuses others with EAGAIN. */
const lookMs = 120;
/** Between the first look and the second: the first hash is to have its share soon. */
const secondLookMs = 30;
/** After the last call of `lower`. */
const restoreMs = 600;
/** How much of the time a process runs, or waits for a core, if it computes, and if it no longer does. */
const [computing, resting] = [0.5, 0.2];
/** Many short statements take much time together, too: their process gives the core up itself, at the latest after each of them. */
const shortestRunMs = 2;
/** Reading one takes about 10 µs of the thread that answers requests. Where there are more, they take turns. */
const maxAtOnce = 200;

/** All processes of PostgreSQL inherit it, so this comes before the first of them starts. */
export function lowerPostmaster(pid: number): void {
  if (process.platform === 'win32') return;
  // Best effort: PostgreSQL also runs at the usual priority.
  attempt(() => setPriority(pid, nice));
}

/** For a process that is being ended. It stays there. */
export function lowerToLowest(pid: number): void {
  // It may have ended, or belong to another account: then it goes on as it is until it is interrupted.
  attempt(() => setPriority(pid, lowestNice));
  attempt(() => writeFileSync(groupFileOf(pid), String(lowestNice)));
}

export type BackendPriority = {
  /** Call it whenever something begins that the statements must not starve. */
  lower(): void;
  stop(): void;
};

/** `pauses`: how often it gave the core up itself, because it had nothing to do. */
type Sample = { at: number; runNs: number; waitedNs: number; pauses: number };
type Known = Sample & { isLowered: boolean };

/**
 * With autogroups, Linux compares nice values only within a session, and each process of PostgreSQL opens one of its own. What it
 * inherited counts for nothing then, so the groups of those that compute are lowered, and raised again when they rest, or when
 * nothing has begun for a while. If all were, a flood of sign-ins would make short statements of others wait: the 99th percentile
 * was 130 ms instead of 70. `clusterFolder` null: PostgreSQL is not ours.
 */
export function openBackendPriority(clusterFolder: string | null): BackendPriority {
  const hasAutogroups = process.platform === 'linux' && read(autogroupsFile).trim() === '1';
  let postmaster: { pid: number; isOurs: boolean } | null = null;
  const known = new Map<number, Known>();
  let calledAt = Number.NEGATIVE_INFINITY;
  let looks = 0;
  let timer: NodeJS.Timeout | null = null;

  /** PostgreSQL's account can write any number into the file: it is looked at before it is believed. */
  const findPostmaster = (): number | null => {
    const pid = clusterFolder === null ? null : (readPidFile(clusterFolder)?.pid ?? null);
    if (clusterFolder !== null && pid !== null && pid !== postmaster?.pid)
      postmaster = { pid, isOurs: inspectPidFile(clusterFolder)?.kind === 'ours' };
    return postmaster?.isOurs ? pid : null;
  };

  /** Those whose turn it is. */
  const findChildren = (): number[] => {
    const pid = findPostmaster();
    const children = pid === null ? [] : childrenOf(pid);
    const all = new Set(children);
    for (const child of known.keys()) if (!all.has(child)) known.delete(child);
    const turns = Math.max(1, Math.ceil(children.length / maxAtOnce));
    const start = (looks++ % turns) * maxAtOnce;
    return children.slice(start, start + maxAtOnce);
  };

  const look = () => {
    timer = null;
    const isOver = performance.now() - calledAt > restoreMs;
    const isFirst = known.size === 0;
    for (const child of findChildren()) {
      const now = sampleOf(child);
      if (!now) continue;
      const before = known.get(child);
      const wasLowered = before?.isLowered ?? false;
      const isToBe = !isOver && before !== undefined && computes(child, before, now);
      const isSet = isToBe === wasLowered || setGroup(child, isToBe ? groupNice : 0);
      known.set(child, { ...now, isLowered: isSet ? isToBe : wasLowered });
    }
    const hasLowered = [...known.values()].some(({ isLowered }) => isLowered);
    if (!isOver || hasLowered) timer = setTimeout(look, isFirst ? secondLookMs : lookMs).unref();
    else known.clear();
  };

  return {
    lower: () => {
      calledAt = performance.now();
      if (hasAutogroups && clusterFolder !== null && timer === null) look();
    },
    stop: () => {
      if (timer) clearTimeout(timer);
    },
  };
}

function childrenOf(pid: number): number[] {
  return read(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
}

function sampleOf(pid: number): Sample | null {
  const [runNs, waitedNs] = read(`/proc/${pid}/schedstat`).split(' ').map(Number);
  const pauses = /^voluntary_ctxt_switches:\s*(\d+)/m.exec(read(`/proc/${pid}/status`))?.[1];
  if (runNs === undefined || waitedNs === undefined || pauses === undefined) return null;
  return { at: performance.now(), runNs, waitedNs, pauses: Number(pauses) };
}

function computes(pid: number, before: Known, now: Sample): boolean {
  const runMs = (now.runNs - before.runNs) / 1e6;
  const pauses = now.pauses - before.pauses;
  if (pauses > 1 && runMs / pauses < shortestRunMs) return false;
  const share = (runMs + (now.waitedNs - before.waitedNs) / 1e6) / (now.at - before.at);
  if (!before.isLowered) return share > computing;
  // Linux counts a wait for a core when it ends, and with a small share one can be longer than the time between two looks.
  return share > resting || read(`/proc/${pid}/stat`).includes(') R ');
}

/** False: not yet. Any refusal but EAGAIN stays: the process has ended, or this system allows none. */
function setGroup(pid: number, to: number): boolean {
  const refusal = attempt(() => {
    if (getPriority(pid) !== lowestNice) writeFileSync(groupFileOf(pid), String(to));
  });
  return refusal !== 'EAGAIN';
}

function groupFileOf(pid: number): string {
  return `/proc/${pid}/autogroup`;
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
