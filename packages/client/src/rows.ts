// Splits the text of a response into rows as it arrives and parses each row separately, so that memory stays constant.
import { RowhouseError } from './errors.ts';
import { type Numbers, parseJson, toBigInts } from './json.ts';

type Row = Record<string, unknown>;
type Head = { columns: string[]; types: string[] };

export type Splitter = {
  /** The rows that this piece completes. Pieces can begin and end anywhere. */
  feed(piece: string): Generator<Row>;
  /** Throws if the response is incomplete. */
  end(): void;
};

export function splitRows(numbers: Numbers): Splitter {
  // The response without its rows.
  let frame = '';
  let pending = '';
  let head: Head | undefined;
  let count = 0;
  let depth = 0;
  let inRows = false;
  let inString = false;
  let escaped = false;
  return {
    *feed(piece) {
      let start = 0;
      for (let at = 0; at < piece.length; at++) {
        const code = piece.charCodeAt(at);
        if (inString) {
          if (escaped) escaped = false;
          else if (code === backslash) escaped = true;
          else if (code === quote) inString = false;
        } else if (code === quote) inString = true;
        else if ((code | 32) === openBrace) {
          depth++;
          if (inRows) {
            // Skips the comma between two rows.
            if (depth === 3) start = at;
          } else if (depth === 2 && /"rows"\s*:\s*$/.test(frame + piece.slice(start, at))) {
            inRows = true;
            frame += piece.slice(start, at + 1);
            head = JSON.parse(`${frame}]}`);
          }
        } else if ((code | 32) === closeBrace) {
          depth--;
          if (inRows && depth === 2) {
            const row = parseJson(pending + piece.slice(start, at + 1), numbers) as Row;
            pending = '';
            count++;
            if (head) toBigInts(numbers, [row], head.columns, head.types);
            yield row;
          } else if (inRows && depth === 1) {
            inRows = false;
            start = at;
          }
        }
      }
      if (!inRows) frame += piece.slice(start);
      else if (depth > 2) pending += piece.slice(start);
    },
    end() {
      if (depth > 0 || !head || JSON.parse(frame).row_count !== count)
        throw new RowhouseError('network_error', `The response ended after ${count} rows.`);
    },
  };
}

const quote = 34;
const backslash = 92;
// A bracket is the corresponding brace without the bit 32.
const openBrace = 123;
const closeBrace = 125;
