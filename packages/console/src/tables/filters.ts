// Filters and order of the tables screen, in the address of the page and in requests. The API's own syntax is used in both.
export const operators = [
  { key: 'eq', label: '=', needsValue: true },
  { key: 'neq', label: '≠', needsValue: true },
  { key: 'gt', label: '>', needsValue: true },
  { key: 'gte', label: '≥', needsValue: true },
  { key: 'lt', label: '<', needsValue: true },
  { key: 'lte', label: '≤', needsValue: true },
  { key: 'ilike', label: 'contains', needsValue: true },
  { key: 'like', label: 'like', needsValue: true },
  { key: 'imatch', label: 'matches (regex)', needsValue: true },
  { key: 'in', label: 'in list', needsValue: true },
  { key: 'not.in', label: 'not in list', needsValue: true },
  { key: 'is.null', label: 'is NULL', needsValue: false },
  { key: 'is.not_null', label: 'is not NULL', needsValue: false },
  { key: 'is.true', label: 'is true', needsValue: false },
  { key: 'is.false', label: 'is false', needsValue: false },
  { key: 'cs', label: 'contains (array, JSON)', needsValue: true },
  { key: 'cd', label: 'contained in', needsValue: true },
  { key: 'ov', label: 'overlaps', needsValue: true },
  { key: 'wfts', label: 'full text', needsValue: true },
] as const;

export type Operator = (typeof operators)[number]['key'];
export type Filter = { column: string; operator: Operator; value: string };
/** One or more conditions of which at least one holds. */
export type FilterGroup = readonly Filter[];
export type Sort = { column: string; isDescending: boolean };

export const needsValue = (operator: Operator) =>
  operators.find(({ key }) => key === operator)?.needsValue ?? true;

/** As written in the page's address: the JSON of the parts, because a column can contain any character. */
export function writeFilters(group: FilterGroup): string {
  const parts = group.map(({ column, operator, value }) => [column, operator, value]);
  return JSON.stringify(parts.length === 1 ? parts[0] : parts);
}

/** null: the address is damaged. */
export function readFilters(text: string): FilterGroup | null {
  const parts = parse(text);
  const filters = (parts.every(Array.isArray) ? parts : [parts]).map(readFilter);
  return filters.length > 0 && filters.every((filter) => filter !== null) ? filters : null;
}

function readFilter([column, operator, value]: unknown[]): Filter | null {
  const known = operators.find(({ key }) => key === operator);
  if (typeof column !== 'string' || !known || typeof value !== 'string') return null;
  return { column, operator: known.key, value };
}

export const writeSort = ({ column, isDescending }: Sort) =>
  JSON.stringify([column, isDescending ? 'desc' : 'asc']);

export function readSort(text: string): Sort | null {
  const [column, direction] = parse(text);
  return typeof column === 'string' ? { column, isDescending: direction === 'desc' } : null;
}

/** A parameter of the API. Names are always quoted, so that no column can be taken for a parameter such as "limit". */
export function filterParam(filter: Filter): [string, string] {
  return [quote(filter.column), testOf(filter, (value) => value)];
}

/** The parameter of several conditions: or=(…), in which values are quoted. */
export function groupParam(group: FilterGroup): [string, string] {
  const [first] = group;
  if (first && group.length === 1) return filterParam(first);
  return ['or', `(${group.map((filter) => `${quote(filter.column)}.${testOf(filter, quote)}`).join(',')})`];
}

function testOf({ operator, value }: Filter, write: (value: string) => string): string {
  switch (operator) {
    case 'ilike':
      return `ilike.${write(value.includes('*') ? value : `*${value}*`)}`;
    case 'in':
    case 'not.in': {
      const items = value.split(',').map((item) => quote(item.trim()));
      return `${operator}.(${items.join(',')})`;
    }
    default:
      return needsValue(operator) ? `${operator}.${write(value)}` : operator;
  }
}

export const orderParam = (sorts: readonly Sort[]) =>
  sorts.map(({ column, isDescending }) => `${quote(column)}.${isDescending ? 'desc' : 'asc'}`).join(',');

const quote = (name: string) => `"${name.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;

function parse(text: string): unknown[] {
  try {
    const parts: unknown = JSON.parse(text);
    return Array.isArray(parts) ? parts : [];
  } catch {
    return [];
  }
}
