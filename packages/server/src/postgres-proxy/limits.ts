// The limits on clients that have not logged in yet. A stranger can open as many connections as a network allows, and each
// login that has begun occupies a process of PostgreSQL, so both are bounded in total and for each address.
import { openBuckets } from '../lib/rate-limits.ts';

export type Limit = Readonly<{ total: number; perAddress: number }>;
/** `penaltyMs`: for so long, the address counts as if it were still inside. Others do not wait for that. */
export type Leave = (penaltyMs?: number) => void;

/** Counts who is inside. `enter` returns null if the limit is reached. `onFreed`: there may be room again. */
export function openCounter(
  { total, perAddress }: Limit,
  onFreed: () => void = () => {},
): { enter(address: string): Leave | null } {
  const inside = new Map<string, number>();
  let all = 0;
  const forget = (address: string) => {
    const rest = (inside.get(address) ?? 1) - 1;
    if (rest > 0) inside.set(address, rest);
    else inside.delete(address);
    onFreed();
  };
  return {
    enter: (address) => {
      const here = inside.get(address) ?? 0;
      if (all >= total || here >= perAddress) return null;
      all++;
      inside.set(address, here + 1);
      let isInside = true;
      return (penaltyMs = 0) => {
        if (!isInside) return;
        isInside = false;
        all--;
        if (penaltyMs === 0) return forget(address);
        setTimeout(forget, penaltyMs, address).unref();
        onFreed();
      };
    },
  };
}

/** The same, but clients wait for their turn. Addresses take turns, so that one with many clients delays only itself. */
export function openQueue(limit: Limit): { enter(address: string, ended: AbortSignal): Promise<Leave> } {
  type Waiting = { admit: () => boolean };
  /** In the order in which addresses are served next. */
  const queues = new Map<string, Waiting[]>();
  const serve = () => {
    for (const [address, waiting] of [...queues]) {
      const [first] = waiting;
      if (!first?.admit()) continue;
      waiting.shift();
      queues.delete(address);
      if (waiting.length > 0) queues.set(address, waiting);
      return;
    }
  };
  const counter = openCounter(limit, serve);

  return {
    enter: (address, ended) =>
      new Promise((resolve, reject) => {
        const admit = () => {
          const leave = counter.enter(address);
          if (leave) {
            ended.removeEventListener('abort', giveUp);
            resolve(leave);
          }
          return leave !== null;
        };
        const one = { admit };
        const giveUp = () => {
          const rest = (queues.get(address) ?? []).filter((other) => other !== one);
          if (rest.length > 0) queues.set(address, rest);
          else queues.delete(address);
          reject(ended.reason);
        };
        if (ended.aborted) return reject(ended.reason);
        ended.addEventListener('abort', giveUp, { once: true });
        if (!queues.has(address) && admit()) return;
        queues.set(address, [...(queues.get(address) ?? []), one]);
      }),
  };
}

/** So many in each second. */
export function openRate({ total, perAddress }: Limit): { take(address: string): boolean } {
  const now = () => performance.now();
  const inAll = openBuckets({ now, most: 1 });
  const byAddress = openBuckets({ now, most: maxAddresses });
  const [all, each] = [perSecond(total), perSecond(perAddress)];
  return {
    take: (address) => {
      if (byAddress.take(address, each) > 0) return false;
      const isAdmitted = inAll.take('', all) === 0;
      if (!isAdmitted) byAddress.refund(address, each);
      return isAdmitted;
    },
  };
}
const maxAddresses = 10_000;
const perSecond = (burst: number) => ({ burst, refillMs: 1000 / burst });
