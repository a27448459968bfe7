// What a job that fills a project could not take over: a line for each.
import type { Job } from '@rowhouse/api';
import { clean } from './table.ts';

type Report = { skipped?: { entry: string; reason: string }[]; skipped_count?: number };

export function skippedLines({ result }: Job): string[] {
  const { skipped = [], skipped_count: count = skipped.length } = (result ?? {}) as Report;
  const more = count - skipped.length;
  return [
    ...skipped.map(({ entry, reason }) => clean(`skipped  ${entry}: ${reason}`)),
    ...(more > 0 ? [`skipped  ${more} more`] : []),
  ];
}
