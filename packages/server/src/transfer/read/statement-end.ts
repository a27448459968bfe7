// Where a statement of a SQL script ends, by the rules of psql's own scanner (psqlscan.l): quotes, dollar quotes, nested
// comments, parentheses, and function bodies between BEGIN ATOMIC and END. The scanner works on bytes and can go on where
// the bytes before it ended.

export type Found =
  /** Behind the semicolon. */
  | Readonly<{ kind: 'end'; at: number }>
  /** A backslash outside of quotes: a command for psql. */
  | Readonly<{ kind: 'backslash'; at: number }>
  /** The bytes end first. */
  | Readonly<{ kind: 'more' }>;

type Mode = 'plain' | 'string' | 'escaped' | 'name' | 'dollar' | 'line' | 'block';

const more: Found = { kind: 'more' };
/** Outside of quotes, this many bytes decide what begins. */
const maxTagBytes = 256;

export class StatementEnd {
  /** Something other than blanks and comments was seen. */
  hasBegun = false;
  /** Where that something begins. */
  beginsAt = 0;
  /** Whether '…' ends at a quote behind a backslash. */
  standardStrings = true;
  /** How many rows an INSERT lists behind VALUES. null: none, or it is another statement. */
  listedRows: number | null = null;
  private mode: Mode = 'plain';
  private at = 0;
  private tag: Buffer = Buffer.alloc(0);
  private blockDepth = 0;
  private parens = 0;
  private beginDepth = 0;
  private words = 0;
  /** The first letters of the first words, as far as they are among those that begin CREATE FUNCTION. */
  private first = '';
  private isFunction = false;
  private insert: 'none' | 'head' | 'default' | 'values' | 'end' = 'none';

  /** For the next statement, which begins at the start of the bytes. */
  restart(): void {
    this.hasBegun = false;
    this.beginsAt = 0;
    this.listedRows = null;
    this.mode = 'plain';
    this.at = 0;
    this.blockDepth = 0;
    this.parens = 0;
    this.beginDepth = 0;
    this.words = 0;
    this.first = '';
    this.isFunction = false;
    this.insert = 'none';
  }

  /** Not inside of quotes or a comment that has to be closed. */
  get isOutside(): boolean {
    return this.mode === 'plain' || this.mode === 'line';
  }

  /** `bytes`: all of the statement so far. `isLast`: no more will come. */
  find(bytes: Buffer, isLast: boolean): Found {
    for (;;) {
      const found = this.mode === 'plain' ? this.scanPlain(bytes, isLast) : this.scanQuoted(bytes, isLast);
      if (found) return found;
      if (this.at >= bytes.length) return more;
    }
  }

  /** Goes on behind a backslash command. */
  skipTo(at: number): void {
    this.at = at;
  }

  private scanQuoted(bytes: Buffer, isLast: boolean): Found | null {
    switch (this.mode) {
      case 'line':
        return this.closeAt(bytes.indexOf(10, this.at), bytes, 1);
      case 'name':
        return this.closeAt(bytes.indexOf(34, this.at), bytes, 1);
      case 'string':
        return this.closeAt(bytes.indexOf(39, this.at), bytes, 1);
      case 'dollar':
        return this.closeDollar(bytes);
      case 'block':
        return this.scanBlock(bytes, isLast);
      default:
        return this.scanEscaped(bytes, isLast);
    }
  }

  /** A doubled quote closes and opens again, which comes to the same. */
  private closeAt(end: number, bytes: Buffer, size: number): Found | null {
    if (end === -1) {
      this.at = bytes.length;
      return more;
    }
    this.at = end + size;
    this.mode = 'plain';
    return null;
  }

  private closeDollar(bytes: Buffer): Found | null {
    const end = bytes.indexOf(this.tag, this.at);
    if (end !== -1) return this.closeAt(end, bytes, this.tag.length);
    this.at = Math.max(this.at, bytes.length - this.tag.length + 1);
    return more;
  }

  private scanBlock(bytes: Buffer, isLast: boolean): Found | null {
    while (this.at < bytes.length) {
      if (this.at + 1 === bytes.length && !isLast) return more;
      const [one, two] = [bytes[this.at], bytes[this.at + 1]];
      if (one === 42 && two === 47) {
        this.at += 2;
        if (--this.blockDepth > 0) continue;
        this.mode = 'plain';
        return null;
      }
      if (one === 47 && two === 42) {
        this.blockDepth++;
        this.at += 2;
      } else {
        this.at++;
      }
    }
    return more;
  }

  private scanEscaped(bytes: Buffer, isLast: boolean): Found | null {
    while (this.at < bytes.length) {
      const byte = bytes[this.at] as number;
      if (byte === 92) {
        if (this.at + 1 >= bytes.length) return more;
        this.at += 2;
        continue;
      }
      if (byte !== 39) {
        this.at++;
        continue;
      }
      // The string goes on behind a line break: E'a' <line break> 'b' is one string.
      let next = this.at + 1;
      while (next < bytes.length && isBlank(bytes[next] as number)) next++;
      if (next >= bytes.length && !isLast) return more;
      const isDoubled = next === this.at + 1 && bytes[next] === 39;
      const hasBreak = bytes.subarray(this.at + 1, next).includes(10) && bytes[next] === 39;
      if (isDoubled || hasBreak) {
        this.at = next + 1;
        continue;
      }
      this.at++;
      this.mode = 'plain';
      return null;
    }
    return more;
  }

  private scanPlain(bytes: Buffer, isLast: boolean): Found | null {
    while (this.at < bytes.length) {
      const byte = bytes[this.at] as number;
      if (isBlank(byte)) {
        this.at++;
        continue;
      }
      const next = bytes[this.at + 1];
      if (next === undefined && !isLast && mayNeedNext(byte)) return more;
      if (byte === 45 && next === 45) return this.enter('line', 2);
      if (byte === 47 && next === 42) {
        this.blockDepth = 1;
        return this.enter('block', 2);
      }
      if (byte === 92) return { kind: 'backslash', at: this.at };
      if (byte !== 59 && !this.hasBegun) {
        this.hasBegun = true;
        this.beginsAt = this.at;
      }
      if (isNameStart(byte)) {
        const taken = this.takeWord(bytes, isLast);
        if (taken !== true) return taken;
        continue;
      }
      if (byte === 39) return this.enter(this.standardStrings ? 'string' : 'escaped', 1);
      if (byte === 34) return this.enter('name', 1);
      if (byte === 36) {
        const taken = this.takeDollar(bytes, isLast);
        if (taken !== true) return taken;
        continue;
      }
      if (byte >= 48 && byte <= 57) {
        let end = this.at + 1;
        while (end < bytes.length && isTagByte(bytes[end] as number)) end++;
        if (end === bytes.length && !isLast) return more;
        this.at = end;
        continue;
      }
      this.at++;
      if (byte === 40) this.open();
      else if (byte === 41) this.parens = Math.max(0, this.parens - 1);
      else if (byte === 59 && this.parens === 0 && this.beginDepth === 0) return { kind: 'end', at: this.at };
    }
    return more;
  }

  private enter(mode: Mode, size: number): null {
    this.mode = mode;
    this.at += size;
    return null;
  }

  /** true: taken. null: the mode has changed. */
  private takeWord(bytes: Buffer, isLast: boolean): true | Found | null {
    let end = this.at + 1;
    while (end < bytes.length && isWordByte(bytes[end] as number)) end++;
    if (end === bytes.length && !isLast) return more;
    const start = this.at;
    this.at = end;
    if (end - start === 1 && (bytes[start] === 69 || bytes[start] === 101) && bytes[end] === 39)
      return this.enter('escaped', 1);
    // Words matter at the beginning, in functions, and between the parts of an INSERT.
    if (this.words < 4 || this.isFunction || (this.parens === 0 && this.insert !== 'none'))
      this.noteWord(end - start <= 9 ? bytes.toString('latin1', start, end).toLowerCase() : '');
    return true;
  }

  private open(): void {
    if (this.parens++ === 0 && this.insert === 'values') this.listedRows = (this.listedRows ?? 0) + 1;
  }

  /** A word outside of parentheses: there is none in a list of rows. */
  private noteOfInsert(word: string): void {
    if (this.insert === 'values') {
      // Behind VALUES … UNION, LIMIT and the like, the list is part of a query.
      if (!behindRows.has(word)) this.listedRows = null;
      this.insert = 'end';
    } else if (word === 'values' && this.insert !== 'end') {
      if (this.insert === 'default') this.listedRows = 1;
      this.insert = this.insert === 'default' ? 'end' : 'values';
    } else if (this.insert !== 'end') {
      this.insert = word === 'default' ? 'default' : beginsQuery.has(word) ? 'end' : 'head';
    }
  }

  private noteWord(word: string): void {
    if (this.words === 0 && word === 'insert') this.insert = 'head';
    if (this.words < 4) {
      this.first += leading.has(word) ? word[0] : '-';
      this.isFunction = /^c(?:[fp]|or[fp])/.test(this.first);
    }
    this.words++;
    if (this.parens === 0 && this.insert !== 'none') this.noteOfInsert(word);
    if (this.parens > 0 || !this.isFunction) return;
    if (word === 'begin') this.beginDepth++;
    else if (word === 'case' && this.beginDepth > 0) this.beginDepth++;
    else if (word === 'end' && this.beginDepth > 0) this.beginDepth--;
  }

  private takeDollar(bytes: Buffer, isLast: boolean): true | Found | null {
    let end = this.at + 1;
    const first = bytes[end];
    if (first !== undefined && first !== 36 && !isNameStart(first)) {
      this.at++;
      return true;
    }
    while (end < bytes.length && end - this.at < maxTagBytes && isTagByte(bytes[end] as number)) end++;
    if (end === bytes.length && !isLast) return more;
    if (bytes[end] !== 36) {
      this.at++;
      return true;
    }
    this.tag = Buffer.from(bytes.subarray(this.at, end + 1));
    this.at = end + 1;
    this.mode = 'dollar';
    return null;
  }
}

const leading = new Set(['create', 'function', 'procedure', 'or', 'replace']);
const beginsQuery = new Set(['select', 'with', 'table']);
const behindRows = new Set(['on', 'returning']);

function isBlank(byte: number): boolean {
  return byte === 32 || (byte >= 9 && byte <= 13);
}

/** A comment, a dollar quote or a command can begin here. */
function mayNeedNext(byte: number): boolean {
  return byte === 45 || byte === 47 || byte === 36 || byte === 92;
}

function isNameStart(byte: number): boolean {
  return (byte >= 65 && byte <= 90) || (byte >= 97 && byte <= 122) || byte === 95 || byte >= 128;
}

function isTagByte(byte: number): boolean {
  return isNameStart(byte) || (byte >= 48 && byte <= 57);
}

function isWordByte(byte: number): boolean {
  return isTagByte(byte) || byte === 36;
}
