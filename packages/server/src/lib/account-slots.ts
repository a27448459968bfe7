// Slots of one kind of work, shared by accounts: the last ones are kept for accounts that have none, and what waits goes by turns
// of accounts. So whatever one account starts, and however long that takes, another one gets a slot, or is next.

import { errors } from '../errors/errors.ts';
import { AccountTurns } from './account-turns.ts';

export type SlotLimits = Readonly<{
  /** How many run at once. */
  all: number;
  /** How many of one account run at once. Left out: as many as of all accounts together. */
  perAccount?: number;
  /** How many of the last ones are for accounts that have none. */
  kept?: number;
  /** How many may wait. A quarter of these places is for accounts of which nothing waits. */
  waiting?: number;
  waitingPerAccount?: number;
}>;

/** Gives the slot back. May be called more than once. */
export type LeaveSlot = () => void;

type Waiting = { account: string; go: (leave: LeaveSlot) => void };

const retryAfterS = 10;
/** Work of the service and of operators is an account of its own. */
const ownWork = '';

export class AccountSlots {
  private readonly what: string;
  private readonly limits: Required<SlotLimits>;
  private readonly turns = new AccountTurns();
  private used = 0;
  private waiting: Waiting[] = [];

  /** `what`: in the plural, for messages. */
  constructor(what: string, limits: SlotLimits) {
    const { all, perAccount = all, kept = 0, waiting = 0, waitingPerAccount = waiting } = limits;
    this.what = what;
    this.limits = { all, perAccount, kept, waiting, waitingPerAccount };
  }

  get waits(): number {
    return this.waiting.length;
  }

  /** A slot, if one is free for the account now. Throws otherwise. */
  enter(account: string | null): LeaveSlot {
    const name = account ?? ownWork;
    if (!this.mayBegin(name)) throw this.refusal(name);
    return this.begin(name);
  }

  /** Waits for a slot, if there is room to wait. `signal` ends the wait with its reason. */
  async take<T>(account: string | null, act: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const leave = await this.acquire(account, signal);
    try {
      return await act();
    } finally {
      leave();
    }
  }

  /** The same, for a slot that its holder gives back. */
  async acquire(account: string | null, signal?: AbortSignal): Promise<LeaveSlot> {
    const name = account ?? ownWork;
    return this.mayBegin(name) ? this.begin(name) : this.wait(name, signal);
  }

  /** Throws if `take` would. */
  requireRoom(account: string | null): void {
    const name = account ?? ownWork;
    if (!this.mayBegin(name) && !this.mayWait(name)) throw this.refusal(name);
  }

  private mayBegin(account: string): boolean {
    const { all, perAccount, kept } = this.limits;
    const own = this.turns.count(account);
    return own === 0 ? this.used < all : own < perAccount && this.used < all - kept;
  }

  private mayWait(account: string): boolean {
    const { waiting, waitingPerAccount } = this.limits;
    const own = this.waitsOf(account);
    const count = this.waiting.length;
    return own === 0 ? count < waiting : own < waitingPerAccount && count < waiting * 0.75;
  }

  private waitsOf(account: string): number {
    return this.waiting.filter((other) => other.account === account).length;
  }

  private begin(account: string): LeaveSlot {
    this.used++;
    this.turns.begin(account);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      this.used--;
      this.turns.end(account);
      this.serve();
    };
  }

  private wait(account: string, signal: AbortSignal | undefined): Promise<LeaveSlot> {
    signal?.throwIfAborted();
    if (!this.mayWait(account)) throw this.refusal(account);
    return new Promise((resolve, reject) => {
      const giveUp = () => {
        this.waiting = this.waiting.filter((other) => other !== one);
        reject(signal?.reason);
      };
      const one: Waiting = {
        account,
        go: (leave) => {
          signal?.removeEventListener('abort', giveUp);
          resolve(leave);
        },
      };
      this.waiting.push(one);
      signal?.addEventListener('abort', giveUp, { once: true });
    });
  }

  private serve(): void {
    for (;;) {
      let next: Waiting | null = null;
      for (const one of this.waiting)
        if (this.mayBegin(one.account) && (!next || this.turns.isBefore(one.account, next.account)))
          next = one;
      if (!next) return;
      this.waiting.splice(this.waiting.indexOf(next), 1);
      next.go(this.begin(next.account));
    }
  }

  private refusal(account: string): Error {
    const own = this.turns.count(account) + this.waitsOf(account);
    if (own === 0) return errors.overloaded(`Too many ${this.what} are running or waiting.`, retryAfterS);
    return errors.shareInUse(this.what, own, retryAfterS);
  }
}

/** What waits for one server does not hold up what waits for another. */
export function slotsOnServers(what: string, limits: SlotLimits): (serverId: number) => AccountSlots {
  const servers = new Map<number, AccountSlots>();
  return (serverId) => {
    const slots = servers.get(serverId) ?? new AccountSlots(what, limits);
    servers.set(serverId, slots);
    return slots;
  };
}
