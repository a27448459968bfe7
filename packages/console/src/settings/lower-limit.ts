// A limit near or below the size of a project stops its writes at once, so the person is asked first.
import type { Project, UsageResponse } from '@rowhouse/api';
import { api, path } from '../api/request.ts';
import { ask } from '../ui/ask.ts';
import { formatMb } from '../ui/format.ts';

/** At most this part of a limit is kept free, and this much more: see docs/limits.md. */
const [keptPart, keptMb] = [1 / 8, 1 / 8];

type Present = Pick<Project, 'slug' | 'limit_mb'>;

/** `present`: the project whose data the limit is for. `name`: of the project that gets it. */
export async function mayLimit(present: Present, name: string, limitMb: number): Promise<boolean> {
  // The service refuses a limit below 1.
  const isLower = limitMb >= 1 && limitMb < present.limit_mb;
  if (!isLower) return true;
  const { usage } = await api.get<UsageResponse>(path`projects/${present.slug}/usage`);
  const { size_mb: sizeMb } = usage;
  if (sizeMb <= limitMb * (1 - keptPart) - keptMb) return true;
  const figures = `The data takes ${formatMb(sizeMb)}, and the limit will be ${formatMb(limitMb)}.`;
  return ask({
    title: `Stop the writes of ${name}?`,
    action: `Set the limit to ${formatMb(limitMb)}`,
    about:
      sizeMb > limitMb
        ? `${figures} Statements that add data are refused at once. Reading and deleting still work.`
        : `${figures} A part of the limit is kept free, so statements that add data may be refused at once. Reading and deleting still work.`,
  });
}
