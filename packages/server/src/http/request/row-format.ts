// Which form the rows of an answer have: JSON, or CSV or JSON lines if the Accept header prefers one of them.
import type { RowFormat } from '../../query/rows-only.ts';

/** A type that the caller can ask for, as it is answered. */
export type Accepted = Readonly<{ format: RowFormat; contentType: string }>;

const types: Readonly<Record<string, Accepted>> = {
  'text/csv': { format: 'csv', contentType: 'text/csv; charset=utf-8; header=present' },
  'application/x-ndjson': { format: 'json-lines', contentType: 'application/x-ndjson; charset=utf-8' },
  'application/jsonl': { format: 'json-lines', contentType: 'application/jsonl; charset=utf-8' },
  'application/jsonlines': { format: 'json-lines', contentType: 'application/jsonlines; charset=utf-8' },
};

/** For the OpenAPI document. */
export const rowBodies = {
  'text/csv': { schema: { type: 'string' } },
  'application/x-ndjson': { schema: { type: 'string' } },
} as const;
export const rowsNote =
  'With `Accept: text/csv` or `application/x-ndjson`, the response has the rows alone, streamed, as CSV with a header or as one JSON object per line.';

/** The hot path needs no more than this: whether the header can name another form than JSON. */
export function mayWantRows(accept: string | undefined): boolean {
  return accept !== undefined && accept !== '*/*' && /csv|ndjson|jsonl/i.test(accept);
}

/**
 * null: JSON. The type with the highest weight counts; of several, JSON comes first, then the order of the header. A
 * wildcard means JSON. A type that is not known is passed over, as it was before there was a choice.
 */
export function readAccept(accept: string | undefined): Accepted | null {
  if (!mayWantRows(accept) || accept === undefined || accept.length > maxLength) return null;
  let best: { accepted: Accepted | null; weight: number } = { accepted: null, weight: 0 };
  for (const entry of accept.split(',')) {
    const [name = '', ...parameters] = entry.split(';').map((part) => part.trim().toLowerCase());
    const isJson = jsonTypes.includes(name);
    const accepted = types[name];
    if (!isJson && !(Object.hasOwn(types, name) && accepted)) continue;
    const weight = weightOf(parameters);
    if (weight > best.weight || (isJson && weight === best.weight))
      best = { accepted: isJson ? null : (accepted ?? null), weight };
  }
  return best.accepted;
}

const maxLength = 1_000;
const jsonTypes = ['application/json', 'application/*', '*/*'];

/** A weight that is not a number from 0 to 1 counts as 0: such an entry asks for nothing. */
function weightOf(parameters: readonly string[]): number {
  const given = parameters.find((part) => part.startsWith('q='))?.slice(2);
  if (given === undefined) return 1;
  return /^(0(\.\d{0,3})?|1(\.0{0,3})?)$/.test(given) ? Number(given) : 0;
}
