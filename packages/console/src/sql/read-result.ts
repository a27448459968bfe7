// Reads the answer of a query as it arrives, so that its first rows are shown while PostgreSQL still sends the others. The
// answer has the columns before the rows, and the count, the time and the rest after them.
import type { QueryResponse } from '@rowhouse/api';

type Row = QueryResponse['rows'][number];
type Head = Pick<QueryResponse, 'columns' | 'types'>;

/** Inside of a JSON string its quotes would be escaped, so this can only be the key. */
const rowsMark = '"rows":[';

export type ResultReader = {
  /** Returns whether there are new rows. */
  push(text: string): boolean;
  /** What has arrived; null before the first row. */
  soFar(): QueryResponse | null;
  /** Throws if the answer is not whole. */
  end(): QueryResponse;
};

export function resultReader(): ResultReader {
  let head: Head | null = null;
  let rest = '';
  let isAfterRows = false;
  const rows: Row[] = [];

  const readHead = () => {
    const at = rest.indexOf(rowsMark);
    if (at < 0) return;
    head = JSON.parse(`${rest.slice(0, at)}"rows":[]}`) as Head;
    rest = rest.slice(at + rowsMark.length);
  };
  const readRows = () => {
    const { whole, end, isLast } = scanRows(rest);
    if (whole !== '') for (const row of JSON.parse(`[${whole}]`) as Row[]) rows.push(row);
    rest = rest.slice(end);
    isAfterRows = isLast;
    return whole !== '';
  };
  return {
    push(text) {
      rest += text;
      if (!head) readHead();
      return head !== null && !isAfterRows && readRows();
    },
    soFar: () =>
      head && rows.length > 0
        ? {
            ok: true,
            columns: head.columns,
            types: head.types,
            rows,
            row_count: rows.length,
            duration_ms: 0,
            command: 'SELECT',
            affected: rows.length,
            truncated: false,
          }
        : null,
    end() {
      if (!head || !isAfterRows) throw new SyntaxError('The answer broke off.');
      // What follows the rows begins with a comma.
      const tail = JSON.parse(`{"ok":true${rest}`) as Omit<QueryResponse, 'columns' | 'types' | 'rows'>;
      return { ...head, ...tail, rows };
    },
  };
}

/** The whole rows at the start of a text, where the next one begins, and whether the list ends there. */
function scanRows(text: string): { whole: string; end: number; isLast: boolean } {
  let depth = 0;
  let isString = false;
  let start = -1;
  let end = 0;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text.charCodeAt(at);
    if (isString) {
      if (letter === backslash) at += 1;
      else if (letter === quote) isString = false;
    } else if (letter === quote) {
      isString = true;
    } else if (letter === openBrace || letter === openBracket) {
      if (depth === 0 && start < 0) start = at;
      depth += 1;
    } else if (letter === closeBracket && depth === 0) {
      return { whole: start < 0 ? '' : text.slice(start, end), end: at + 1, isLast: true };
    } else if (letter === closeBrace || letter === closeBracket) {
      depth -= 1;
      if (depth === 0) end = at + 1;
    }
  }
  return { whole: end === 0 ? '' : text.slice(start, end), end, isLast: false };
}

const [quote, backslash] = [34, 92];
const [openBrace, closeBrace, openBracket, closeBracket] = [123, 125, 91, 93];
