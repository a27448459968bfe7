// Messages over stdin, one per line, before the library reads them: numbers that JavaScript would round become marked strings.
// toJsonText turns these into numbers again, with all their digits.
import { Transform } from 'node:stream';
import { parseJsonText } from '../query/json/json-text.ts';

export function exactLines(maxLineBytes: number): Transform {
  let pieces: Buffer[] = [];
  let bytes = 0;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      let from = 0;
      for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
        pieces.push(chunk.subarray(from, end));
        this.push(`${exactLine(Buffer.concat(pieces).toString())}\n`);
        pieces = [];
        bytes = 0;
        from = end + 1;
      }
      pieces.push(chunk.subarray(from));
      bytes += chunk.length - from;
      done(bytes > maxLineBytes ? new Error(`A message has more than ${maxLineBytes} bytes.`) : null);
    },
  });
}

/** The library says what is wrong with a line that is not JSON. */
function exactLine(line: string): string {
  try {
    return JSON.stringify(parseJsonText(line));
  } catch {
    return line;
  }
}
