// Parses the query string to decoded pairs, in order. Common parsers ignore what they cannot decode and merge repeated
// parameters; in a filter, both would change which rows are selected.
import { errors } from '../../errors/errors.ts';

export type Pair = Readonly<{ name: string; value: string }>;

const maxLength = 1024 * 1024;
const maxPairs = 500;

/** `raw`: the part after the question mark, still encoded. */
export function readPairs(raw: string): Pair[] {
  if (raw.length > maxLength) throw refuse(`is longer than ${maxLength} characters`);
  const pieces = raw.split('&').filter((piece) => piece !== '');
  if (pieces.length > maxPairs) throw refuse(`has more than ${maxPairs} parameters`);
  return pieces.map((piece) => {
    const separator = piece.indexOf('=');
    if (separator < 0) return { name: decode(piece), value: '' };
    return { name: decode(piece.slice(0, separator)), value: decode(piece.slice(separator + 1)) };
  });
}

/** Decodes a name or a value. */
export function decode(text: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw refuse(`contains "${text.slice(0, 40)}", which is not percent-encoded UTF-8`);
  }
  if (decoded.includes('\0')) throw refuse('must not contain a NUL character');
  return decoded;
}

function refuse(problem: string): Error {
  return errors.invalidRequest([{ path: '', problem: `the query string ${problem}` }]);
}
