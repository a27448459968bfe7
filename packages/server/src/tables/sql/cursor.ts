// Cursors: the end of a page as opaque text, with the table, the order and the sort values of the last row. A cursor is
// not signed, because it can express no more than a filter can; only its structure is validated.
import { errors } from '../../errors/errors.ts';

export type Cursor = Readonly<{
  table: string;
  order: readonly string[];
  /** PostgreSQL's text of each value, with all digits. */
  values: readonly (string | null)[];
}>;

const version = 1;
/** A URL should not be much longer. */
const maxLength = 8_192;

/** null: the values are too long for a URL. */
export function writeCursor({ table, order, values }: Cursor): string | null {
  const text = Buffer.from(JSON.stringify([version, table, order, values])).toString('base64url');
  return text.length > maxLength ? null : text;
}

export function readCursor(text: string): Cursor {
  const broken = 'is not a cursor of this service';
  if (text.length > maxLength || !/^[A-Za-z0-9_-]+$/.test(text)) throw refuse(broken);
  let content: unknown;
  try {
    content = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(text, 'base64url')));
  } catch {
    throw refuse(broken);
  }
  if (!Array.isArray(content) || content.length !== 4) throw refuse(broken);
  const [given, table, order, values] = content as unknown[];
  if (given !== version)
    throw refuse('comes from another version of the service; start again without a cursor');
  const isValid =
    typeof table === 'string' &&
    Array.isArray(order) &&
    order.every((field) => typeof field === 'string') &&
    Array.isArray(values) &&
    values.length === order.length &&
    values.every((value) => value === null || (typeof value === 'string' && !value.includes('\0')));
  if (!isValid) throw refuse(broken);
  return { table, order, values };
}

export function refuse(problem: string): Error {
  return errors.invalidRequest([{ path: 'cursor', problem }]);
}
