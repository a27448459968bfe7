// Ranges as tab-separated text, as spreadsheets exchange it. NULL is an empty field; an empty text is "", so that both
// survive a copy within the console. A spreadsheet reads both as an empty cell.
export type Text = string | null;

export function writeTsv(rows: readonly (readonly Text[])[]): string {
  return rows.map((row) => row.map(writeField).join('\t')).join('\n');
}

/** Accepts \n, \r\n and \r, quoted fields with tabs and line breaks, and one line break at the end. */
export function readTsv(text: string): Text[][] {
  const rows: Text[][] = [];
  let row: Text[] = [];
  let at = 0;
  while (at <= text.length) {
    const field = readField(text, at);
    row.push(field.value);
    at = field.end;
    const next = text[at];
    if (next !== '\t') {
      rows.push(row);
      row = [];
      if (next === '\r' && text[at + 1] === '\n') at += 1;
      if (next !== undefined && at + 1 >= text.length) break;
    }
    at += 1;
  }
  return rows;
}

function writeField(value: Text): string {
  if (value === null) return '';
  if (value === '' || /["\t\r\n]/.test(value)) return `"${value.replaceAll('"', '""')}"`;
  return value;
}

function readField(text: string, start: number): { value: Text; end: number } {
  if (text[start] === '"') {
    const quoted = readQuoted(text, start);
    if (quoted) return quoted;
  }
  let end = start;
  while (end < text.length && !'\t\r\n'.includes(text[end] ?? '')) end += 1;
  return { value: end === start ? null : text.slice(start, end), end };
}

/** null if the quote does not end before a tab, a line break or the end: then it is a part of the value. */
function readQuoted(text: string, start: number): { value: string; end: number } | null {
  let value = '';
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] !== '"') {
      value += text[at];
    } else if (text[at + 1] === '"') {
      value += '"';
      at += 1;
    } else {
      const after = text[at + 1];
      return after === undefined || '\t\r\n'.includes(after) ? { value, end: at + 1 } : null;
    }
  }
  return null;
}
