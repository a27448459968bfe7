// What a command prints when a job begins to fill a new project.
import { formatFields } from './table.ts';

export function startedFields(slug: string, key: string, jobId: string): string {
  return formatFields([
    ['slug', slug],
    ['key', `${key}   This key is shown only once. Store it now.`],
    ['job', jobId],
  ]);
}
