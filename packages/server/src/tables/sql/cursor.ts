// Where a page ended, as text that means nothing to its bearer: which table, in which order, and the last row's values
// in it. It is not signed, because it can say no more than a filter can; it is only checked for making sense.
import { errors } from '../../errors.ts';

export type Cursor = Readonly<{
  table: string;
  order: readonly string[];
  /** PostgreSQL's own text of each value, with all its digits. */
  values: readonly (string | null)[];
}>;

const version = 1;
/** An address does not take much more than this. */
const maxLength = 8_192;

/** null: the values are too long to go into an address. */
export function writeCursor({ table, order, values }: Cursor): string | null {
  const text = Buffer.from(JSON.stringify([version, table, order, values])).toString('base64url');
  return text.length > maxLength ? null : text;
}

export function readCursor(text: string): Cursor {
  const broken = 'is not a cursor that this service gave out';
  if (text.length > maxLength || !/^[A-Za-z0-9_-]+$/.test(text)) throw refuse(broken);
  let content: unknown;
  try {
    content = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(text, 'base64url')));
  } catch {
    throw refuse(broken);
  }
  if (!Array.isArray(content) || content.length !== 4) throw refuse(broken);
  const [given, table, order, values] = content as unknown[];
  if (given !== version) throw refuse('was given out by another version of the service: start again');
  const isSound =
    typeof table === 'string' &&
    Array.isArray(order) &&
    order.every((field) => typeof field === 'string') &&
    Array.isArray(values) &&
    values.length === order.length &&
    values.every((value) => value === null || (typeof value === 'string' && !value.includes('\0')));
  if (!isSound) throw refuse(broken);
  return { table, order, values };
}

export function refuse(problem: string): Error {
  return errors.invalidRequest([{ path: 'cursor', problem }]);
}
