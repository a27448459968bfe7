// How many rows a COPY … FROM stdin brings along: its lines, by the rules of PostgreSQL's own reader. What the table took is
// compared with them.
import { findWords, type Word } from '../read/words.ts';

/** null: the format is not known well enough to count. */
type Format = Readonly<{
  kind: 'text' | 'csv';
  header: boolean;
  quoteByte: number;
  escapeByte: number;
}> | null;

/** The rows of one COPY on their way. */
export class CopyRows {
  private readonly format: Format;
  private lines = 0;
  /** Something stands behind the last line break. */
  private isOpen = false;
  /** The last byte is a backslash that makes the next one a part of the value. */
  private isEscaped = false;
  private isQuoted = false;

  constructor(text: string) {
    this.format = formatOf(text);
  }

  /** null: not known. */
  get held(): number | null {
    if (!this.format) return null;
    return Math.max(0, this.lines + (this.isOpen ? 1 : 0) - (this.format.header ? 1 : 0));
  }

  async *counted(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const piece of pieces) {
      if (this.format?.kind === 'csv') this.readCsv(piece, this.format);
      else this.readText(piece);
      yield piece;
    }
  }

  private readText(piece: Buffer): void {
    if (piece.length === 0) return;
    for (let at = piece.indexOf(10); at !== -1; at = piece.indexOf(10, at + 1))
      if (!this.isEscapedAt(piece, at)) this.lines++;
    const last = piece.length - 1;
    this.isOpen = piece[last] !== 10 || this.isEscapedAt(piece, last);
    this.isEscaped = this.isEscapedAt(piece, piece.length);
  }

  /** Behind an odd number of backslashes. */
  private isEscapedAt(piece: Buffer, at: number): boolean {
    let from = at;
    while (from > 0 && piece[from - 1] === backslash) from--;
    const isOdd = (at - from) % 2 === 1;
    return from === 0 && this.isEscaped ? !isOdd : isOdd;
  }

  private readCsv(piece: Buffer, { quoteByte, escapeByte }: NonNullable<Format>): void {
    for (const byte of piece) {
      // Where both are the same, a doubled quote closes and opens again.
      const isEscape: boolean = escapeByte !== quoteByte && this.isQuoted && byte === escapeByte;
      if (byte === quoteByte && !this.isEscaped) this.isQuoted = !this.isQuoted;
      this.isEscaped = isEscape && !this.isEscaped;
      this.isOpen = byte !== 10 || this.isQuoted;
      if (!this.isOpen) this.lines++;
    }
  }
}

const backslash = 92;
const doubleQuote = 34;
const plain: Format = { kind: 'text', header: false, quoteByte: doubleQuote, escapeByte: doubleQuote };
const maxChars = 512 * 1024;

function formatOf(text: string): Format {
  if (/^copy\s{1,99}binary\s/i.test(text)) return null;
  // As pg_dump writes it.
  if (/\bfrom\s{1,9}stdin\s{0,9};?$/i.test(text.slice(-40))) return plain;
  const words = findWords(text, maxChars);
  const from = words.findIndex(
    ({ word, depth }, at) => word === 'stdin' && depth === 0 && isFrom(words[at - 1]),
  );
  const condition = words.findIndex(({ word, depth }, at) => at > from && depth === 0 && word === 'where');
  const options = words.slice(from + 1, condition === -1 ? undefined : condition);
  const find = (name: string) => options.find(({ word, isQuoted }) => word === name && !isQuoted);
  const after = (word: Word) => text.slice(word.end, word.end + 100);
  const named = find('format');
  const [, kind] = named
    ? (/^\s+(text|csv)\b/i.exec(after(named)) ?? [])
    : [null, find('csv') ? 'csv' : 'text'];
  if (from === -1 || !kind || find('binary')) return null;
  const header = find('header');
  const quoteByte = charOf(find('quote'), after, doubleQuote);
  const escapeByte = charOf(find('escape'), after, quoteByte);
  if (quoteByte === null || escapeByte === null) return null;
  return {
    kind: kind.toLowerCase() === 'csv' ? 'csv' : 'text',
    header: header !== undefined && !/^\s+'?(?:false|off|0)\b/i.test(after(header)),
    quoteByte,
    escapeByte,
  };
}

const isFrom = (word: Word | undefined) => word?.word === 'from' && !word.isQuoted;

/** The one character of QUOTE '…'. */
function charOf(word: Word | undefined, after: (word: Word) => string, usual: number | null): number | null {
  if (!word) return usual;
  const [, escaped, own] = /^\s+(?:as\s+)?(?:e'\\([^\w])'|'([^'\\]|''|\\)')/i.exec(after(word)) ?? [];
  const char = escaped ?? own?.slice(0, 1);
  return char === undefined || char > '\x7f' ? null : char.charCodeAt(0);
}
