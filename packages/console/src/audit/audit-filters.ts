// The filters of the audit log, as they are in the address and as the API takes them.
import type { ListAudit } from '@rowhouse/api';

export const filterNames = ['actor', 'action', 'project', 'outcome', 'from', 'to'] as const;
export type Filters = Partial<Record<(typeof filterNames)[number], string>>;

const outcomes = ['done', 'refused', 'failed'];

/** Whatever is in the address, without what the service would refuse. */
export function readFilters(params: URLSearchParams): Filters {
  const filters: Filters = {};
  for (const name of filterNames) {
    const value = params.get(name)?.trim() ?? '';
    if (value !== '' && isUsable(name, value)) filters[name] = value.slice(0, 300);
  }
  return filters;
}

function isUsable(name: (typeof filterNames)[number], value: string): boolean {
  if (name === 'outcome') return outcomes.includes(value);
  if (name === 'from' || name === 'to') return !Number.isNaN(Date.parse(value));
  return true;
}

/** Times in the address are of this machine's clock, as the fields are. */
export function toQuery({ from, to, ...rest }: Filters): ListAudit {
  const query = {
    ...rest,
    ...(from && { from: new Date(from).toISOString() }),
    ...(to && { to: new Date(to).toISOString() }),
  };
  return query as ListAudit;
}

/** "role: viewer, projects: shop" */
export function detailsText(details: Record<string, unknown> | null): string {
  return Object.entries(details ?? {})
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ');
}
