// The memory and the messages that the pg_dump thread shares with the main thread. Bytes from PostgreSQL come through a
// ring in shared memory, because pg_dump waits for them in the middle of a call and cannot take a message then.
import type { MessagePort } from 'node:worker_threads';

/** Bytes from PostgreSQL that pg_dump has not read yet. A power of two, so that the counters may wrap. */
export const ringBytes = 1024 * 1024;
/** Bytes of the dump that were posted and not yet sent: beyond that pg_dump waits. */
export const windowBytes = 1024 * 1024;

/** Places in the shared Int32Array. Counters count bytes and wrap at 2³². */
export const slot = {
  written: 0,
  read: 1,
  /** 1: PostgreSQL has closed the connection. */
  closed: 2,
  /** 1: the service has more bytes and waits for room in the ring. */
  wantsRoom: 3,
  /** How much of the dump was sent on. */
  acknowledged: 4,
} as const;
export const slots = 5;

export type WorkerInput = {
  control: SharedArrayBuffer;
  ring: SharedArrayBuffer;
  args: string[];
  env: Record<string, string>;
  maxMemoryMb: number;
  /** Returns the memory of pieces that were read. */
  spent: MessagePort;
};

export type WorkerMessage =
  | { kind: 'send'; bytes: Uint8Array }
  | { kind: 'room' }
  | { kind: 'piece'; bytes: Uint8Array }
  | { kind: 'end'; code: number; said: string };

/** How many bytes lie between two counters. */
export function distance(later: number, earlier: number): number {
  return (later - earlier) >>> 0;
}
