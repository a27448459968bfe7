// The parts of a dump or a server that a job could not take over. Lost parts stand before needless ones.
import type { Job } from '@rowhouse/api';
import { clean } from './table.ts';

/** The project that the job fills is ready. */
export function isDone({ status }: Job): boolean {
  return status === 'done' || status === 'done_with_losses';
}

const maxListed = 200;

type Report = {
  skipped?: { entry: string; reason: string; lost?: boolean }[];
  skipped_count?: number;
  lost_count?: number;
};

export function skippedLines({ result }: Job): string[] {
  const {
    skipped = [],
    skipped_count: count = skipped.length,
    lost_count: lost = 0,
  } = (result ?? {}) as Report;
  // An entry of the list can stand for many: it is whole unless it is full.
  const more = skipped.length < maxListed ? 0 : count - skipped.length;
  return [
    ...(lost > 0
      ? [`Not everything was taken over: ${lost === 1 ? 'one entry was' : `${lost} entries were`} lost.`]
      : []),
    ...skipped.map((one) => clean(`${one.lost ? 'lost   ' : 'skipped'}  ${one.entry}: ${one.reason}`)),
    ...(more > 0 ? [`skipped  ${more} more`] : []),
  ];
}
