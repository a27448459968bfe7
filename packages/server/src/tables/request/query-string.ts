// The query string as decoded pairs, in order. The usual parsers pass over what cannot be decoded and fold repeats
// into one value; in a filter both would change which rows are meant.
import { errors } from '../../errors.ts';

export type Pair = Readonly<{ name: string; value: string }>;

const maxLength = 1024 * 1024;
const maxPairs = 500;

/** `raw` is what stands after the question mark, still encoded. */
export function readPairs(raw: string): Pair[] {
  if (raw.length > maxLength) throw refuse(`is longer than ${maxLength} characters`);
  const pieces = raw.split('&').filter((piece) => piece !== '');
  if (pieces.length > maxPairs) throw refuse(`has more than ${maxPairs} parameters`);
  return pieces.map((piece) => {
    const gap = piece.indexOf('=');
    if (gap < 0) return { name: decode(piece), value: '' };
    return { name: decode(piece.slice(0, gap)), value: decode(piece.slice(gap + 1)) };
  });
}

function decode(text: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw refuse(`holds "${text.slice(0, 40)}", which is not percent-encoded UTF-8`);
  }
  if (decoded.includes('\0')) throw refuse('holds a NUL character');
  return decoded;
}

function refuse(problem: string): Error {
  return errors.invalidRequest([{ path: '', problem: `the query string ${problem}` }]);
}
