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
export type Sort = { column: string; isDescending: boolean };

export const needsValue = (operator: Operator) =>
  operators.find(({ key }) => key === operator)?.needsValue ?? true;

/** As written in the page's address: the JSON of the parts, because a column can contain any character. */
export const writeFilter = ({ column, operator, value }: Filter) => JSON.stringify([column, operator, value]);

export function readFilter(text: string): Filter | null {
  const parts = parse(text);
  const [column, operator, value] = parts;
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
export function filterParam({ column, operator, value }: Filter): [string, string] {
  const name = quote(column);
  switch (operator) {
    case 'ilike':
      return [name, `ilike.${value.includes('*') ? value : `*${value}*`}`];
    case 'in':
    case 'not.in':
      return [
        name,
        `${operator}.(${value
          .split(',')
          .map((item) => quote(item.trim()))
          .join(',')})`,
      ];
    default:
      return [name, needsValue(operator) ? `${operator}.${value}` : operator];
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
