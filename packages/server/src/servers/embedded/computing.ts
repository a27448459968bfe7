// Whether a process only computes: it uses the processor, and for a while neither calls the kernel nor touches new memory. A
// backend of PostgreSQL that writes does both all the time, and must not be interrupted in the middle of a change of a page.
import { readFileSync } from 'node:fs';

type Sample = {
  isRunning: boolean;
  userTicks: number;
  systemTicks: number;
  faults: number;
  calls: number | null;
};

/** Ticks of 10 ms. */
const enoughUserTicks = 20;
const mostSystemTicks = 1;
/**
 * Code that takes much memory and gives it back, again and again, touches new memory all the time. So long without a read or a
 * write, a process changes no pages: the log of its changes would have filled its buffers. One that removes the files of many
 * tables, which its commit does at the end, touches little new memory.
 */
const enoughTicks = 300;
const enoughFaults = 1_000;

export type Computing = {
  /**
   * True if it has done nothing but compute for 200 ms of processor time, or has only taken memory and given it back for 3 s of
   * it. It then has to do so for as long again.
   */
  look(): boolean;
};

export function openComputing(pid: number): Computing {
  let since: Sample | null = null;
  let callsSince: Sample | null = null;
  return {
    look: () => {
      const now = sampleOf(pid);
      const hasCalled = now?.calls == null || now.calls !== callsSince?.calls;
      if (!now?.isRunning || callsSince === null || hasCalled) callsSince = now;
      else if (ticksOf(now) - ticksOf(callsSince) >= enoughTicks) {
        const isTaking = now.faults - callsSince.faults >= enoughFaults;
        callsSince = now;
        if (isTaking) {
          since = now;
          return true;
        }
      }
      const isSame =
        now?.isRunning &&
        since !== null &&
        now.faults === since.faults &&
        now.calls === since.calls &&
        now.systemTicks - since.systemTicks <= mostSystemTicks;
      if (!isSame) {
        since = now;
        return false;
      }
      if (now.userTicks - (since?.userTicks ?? 0) < enoughUserTicks) return false;
      since = now;
      return true;
    },
  };
}

const ticksOf = ({ userTicks, systemTicks }: Sample) => userTicks + systemTicks;

/** null: it has ended, or the system does not show it. */
function sampleOf(pid: number): Sample | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name, in parentheses, may contain anything.
    const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const at = (field: number) => Number(fields[field - 4]);
    const faults = at(10) + at(12);
    return { isRunning: state === 'R', faults, userTicks: at(14), systemTicks: at(15), calls: callsOf(pid) };
  } catch {
    return null;
  }
}

/**
 * How often it has read or written a file. One that writes pages does, once it has used every buffer. null: the system does not
 * say.
 */
function callsOf(pid: number): number | null {
  try {
    const io = readFileSync(`/proc/${pid}/io`, 'utf8');
    return Number(/^syscr: (\d+)$/m.exec(io)?.[1]) + Number(/^syscw: (\d+)$/m.exec(io)?.[1]);
  } catch {
    return null;
  }
}
