// Rows of INSERT … VALUES, as values: as in copy-text.ts, only for the users of a dump, whose every value is checked.
import { BrokenDump } from '../read/broken-dump.ts';
import { ownText } from '../read/own-text.ts';
import { findWords } from '../read/words.ts';
import type { CopyRow } from './copy-text.ts';

/** `columns` null: the statement names none, so they are those of the table. */
export type InsertHead = Readonly<{ table: string; columns: string[] | null; valuesAt: number }>;

/** A cheap look first: a dump can have millions of INSERTs. */
export function readAuthInsert(text: string): InsertHead | null {
  if (!/^\s{0,100}insert\s{1,100}into\s{1,100}"?auth"?\s{0,100}\./i.test(text)) return null;
  const words = findWords(text, maxHeadChars);
  const [, , schema, table] = words;
  if (schema?.word !== 'auth' || !table || table.depth !== 0) return null;
  const values = words.find(({ word, isQuoted, depth }) => depth === 0 && !isQuoted && word === 'values');
  if (!values) return { table: ownText(table.word), columns: null, valuesAt: -1 };
  const columns = words
    .filter(({ depth, start }) => depth === 1 && start < values.start)
    .map(({ word }) => ownText(word));
  return { table: ownText(table.word), columns: columns.length > 0 ? columns : null, valuesAt: values.end };
}

const maxHeadChars = 64 * 1024;

/** CREATE TABLE auth.users: the names of its columns. */
export function readAuthColumns(text: string): { table: string; columns: string[] } | null {
  if (!/^\s{0,100}create\s{1,100}(?:unlogged\s{1,100})?table\b/i.test(text)) return null;
  const words = findWords(text, maxHeadChars);
  const at = words.findIndex(({ word, end }) => word === 'auth' && text[end] === '.');
  const table = words[at + 1];
  if (at < 2 || !table || words.slice(0, at).some(({ depth }) => depth > 0)) return null;
  const columns: string[] = [];
  let depthBefore = 0;
  for (const { word, isQuoted, start, depth } of words.slice(at + 2)) {
    const isFirst =
      depth === 1 && (depthBefore === 0 || /,\s*$/.test(text.slice(Math.max(0, start - 50), start)));
    if (isFirst && !(!isQuoted && tableWords.has(word))) columns.push(ownText(word));
    if (depth > 0) depthBefore = 1;
  }
  return { table: ownText(table.word), columns };
}

const tableWords = new Set(['constraint', 'primary', 'unique', 'check', 'foreign', 'exclude', 'like']);

/** null: a row with an expression, which only PostgreSQL could compute. */
export function* readInsertRows(
  text: string,
  from: number,
  columns: readonly string[],
): Generator<CopyRow | null> {
  if (from < 0) {
    yield null;
    return;
  }
  const reader = new ValueReader(text, from);
  while (reader.beginRow()) {
    const values = reader.readRow();
    if (values && values.length !== columns.length)
      throw new BrokenDump('a row of users has another number of columns');
    yield values && new Map(columns.map((name, index) => [name, values[index] ?? null]));
  }
}

const escapes: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

class ValueReader {
  private at: number;
  private readonly text: string;

  constructor(text: string, at: number) {
    this.text = text;
    this.at = at;
  }

  /** False: there is no further row. */
  beginRow(): boolean {
    this.skipBlanks();
    if (this.text[this.at] === ',') this.at++;
    this.skipBlanks();
    if (this.text[this.at] !== '(') return false;
    this.at++;
    return true;
  }

  /** Up to its closing parenthesis. */
  readRow(): (string | null)[] | null {
    const values: (string | null)[] = [];
    let isConstant = true;
    for (;;) {
      const value = this.readValue();
      if (value === undefined) isConstant = false;
      else values.push(value);
      const end = this.text[this.at++];
      if (end === ')') return isConstant ? values : null;
      if (end !== ',') throw new BrokenDump('the values of an INSERT have no end');
    }
  }

  /** undefined: an expression. Ends at the comma or parenthesis behind it. */
  private readValue(): string | null | undefined {
    this.skipBlanks();
    const { text } = this;
    constant.lastIndex = this.at;
    const found = constant.exec(text);
    let value: string | null | undefined;
    if (found) {
      this.at = constant.lastIndex;
      value = toValue(found[0]);
    } else if (text[this.at] === "'") value = this.readString(false);
    else if (/^e'/i.test(text.slice(this.at, this.at + 2))) {
      this.at++;
      value = this.readString(true);
    }
    const behind = this.at;
    this.skipExpression();
    const rest = text.slice(behind, this.at).trim();
    return rest === '' || (rest.length < 200 && cast.test(rest)) ? value : undefined;
  }

  private readString(isEscaped: boolean): string {
    const { text } = this;
    let value = '';
    let from = ++this.at;
    for (; this.at < text.length; this.at++) {
      const letter = text[this.at];
      if (letter === '\\' && isEscaped) {
        value += text.slice(from, this.at);
        const next = text[++this.at] ?? '';
        value += escapes[next] ?? next;
        from = this.at + 1;
      } else if (letter === "'") {
        value += text.slice(from, this.at);
        from = ++this.at;
        if (text[this.at] !== "'") return value;
      }
    }
    throw new BrokenDump('a text in an INSERT has no end');
  }

  /** To the comma or parenthesis that ends the value. */
  private skipExpression(): void {
    const { text } = this;
    let depth = 0;
    for (; this.at < text.length; this.at++) {
      const letter = text[this.at];
      if (letter === "'") {
        this.readString(/e/i.test(text[this.at - 1] ?? ''));
        this.at--;
      } else if (letter === '"') {
        const end = text.indexOf('"', this.at + 1);
        this.at = end === -1 ? text.length : end;
      } else if (letter === '(' || letter === '[') depth++;
      else if (letter === ']') depth--;
      else if (letter === ')' && depth-- === 0) return;
      else if (letter === ',' && depth === 0) return;
    }
  }

  private skipBlanks(): void {
    while (/\s/.test(this.text[this.at] ?? '')) this.at++;
  }
}

const constant = /(?:null|default|true|false|[-+]?\d[\d.]{0,400}(?:e[-+]?\d{1,4})?)(?=[\s,):])/iy;
/** '…'::"text", and ::timestamp with time zone. */
const cast = /^(?:::\s*[\w".\s]+(?:\(\d+\))?(?:\[\])?)+$/;

function toValue(word: string): string | null {
  const lower = word.toLowerCase();
  if (lower === 'null' || lower === 'default') return null;
  if (lower === 'true') return 't';
  return lower === 'false' ? 'f' : word;
}
