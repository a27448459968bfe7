// How fast a server can write: between two measurements, no project grows faster.

import { availableParallelism } from 'node:os';
import { mb } from '../lib/bytes.ts';
import { isLoopback } from '../lib/networks.ts';
import type { Address } from '../postgres/admin/database.ts';

/** The most that one core can write in a millisecond: 0.7 MB were measured, with a hash index and faked statistics. */
const herePerMs = mb * Math.min(16, Math.max(2, availableParallelism()));
/** For a server on another machine, whose cores are not known. */
const elsewherePerMs = 16 * mb;

/** In bytes a millisecond. */
export function writeRateOf({ host, socket }: Address): number {
  return socket !== undefined || isLoopback(host) ? herePerMs : elsewherePerMs;
}
