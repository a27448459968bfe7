// Splits SQL into statements, by the rules of PostgreSQL for quotes and comments. For people's tools, which show and send
// statement by statement; the service parses with PostgreSQL's own parser.

export type Statement = { from: number; to: number; text: string };

/** Statements of a text, split at semicolons outside of quotes, comments, dollar quotes and BEGIN ATOMIC … END. */
export function splitStatements(text: string): Statement[] {
  const statements: Statement[] = [];
  let start = 0;
  let at = 0;
  /** The depth in the body of a function in standard SQL: BEGIN ATOMIC and CASE open, END closes. */
  let depth = 0;
  while (at < text.length) {
    const word = wordAt(text, at);
    if (word !== '') {
      if (depth > 0) depth += { case: 1, begin: 1, end: -1 }[word.toLowerCase()] ?? 0;
      else if (/^begin$/i.test(word) && /^begin\s+atomic\b/i.test(text.slice(at, at + 200))) depth = 1;
      at += word.length;
    } else if (text[at] === ';' && depth === 0) {
      push(statements, text, start, at);
      at += 1;
      start = at;
    } else {
      at = skipToken(text, at);
    }
  }
  push(statements, text, start, text.length);
  return statements;
}

/** The first keyword, in lower case, after comments. */
export function firstWord(sql: string): string {
  const at = skipBlank(sql, 0, sql.length);
  return /^[a-z]+/i.exec(sql.slice(at))?.[0].toLowerCase() ?? '';
}

/** The text with spaces in place of comments, quoted names and strings: what is left are words and signs. */
export function codeOf(sql: string): string {
  let code = '';
  let at = 0;
  while (at < sql.length) {
    const next = skipToken(sql, at);
    code += next === at + 1 ? sql[at] : ' '.repeat(next - at);
    at = next;
  }
  return code;
}

/** A name or keyword that begins here; not the prefix of a string such as E'…'. */
function wordAt(text: string, at: number): string {
  if (!/[a-z_]/i.test(text[at] ?? '') || /[\w$]/.test(text[at - 1] ?? '')) return '';
  word.lastIndex = at;
  const found = word.exec(text)?.[0] ?? '';
  return text[at + found.length] === "'" ? '' : found;
}

const word = /[a-z_][\w$]*/iy;

function push(statements: Statement[], text: string, start: number, end: number) {
  const from = skipBlank(text, start, end);
  const part = text.slice(from, end).trimEnd();
  if (part !== '') statements.push({ from, to: from + part.length, text: part });
}

/** Skips spaces and comments. */
function skipBlank(text: string, start: number, end: number): number {
  let at = start;
  while (at < end) {
    if (/\s/.test(text[at] ?? '')) at += 1;
    else if (text.startsWith('--', at) || text.startsWith('/*', at)) at = Math.min(end, skipToken(text, at));
    else break;
  }
  return at;
}

function skipToken(text: string, at: number): number {
  const letter = text[at];
  if (text.startsWith('--', at)) return endOf(text, '\n', at);
  if (text.startsWith('/*', at)) return skipComment(text, at);
  if (letter === '"') return skipQuoted(text, at, '"', false);
  if (letter === "'")
    return skipQuoted(text, at, "'", /[eE]/.test(text[at - 1] ?? '') && !/\w/.test(text[at - 2] ?? ''));
  if (letter === '$' && !/[\w$]/.test(text[at - 1] ?? '')) {
    const tag = /^\$([A-Za-z_]\w*)?\$/.exec(text.slice(at, at + 70))?.[0];
    if (tag) return endOf(text, tag, at + tag.length);
  }
  return at + 1;
}

function endOf(text: string, mark: string, from: number): number {
  const at = text.indexOf(mark, from);
  return at < 0 ? text.length : at + mark.length;
}

/** Comments nest in PostgreSQL. */
function skipComment(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    if (text.startsWith('/*', at)) {
      depth += 1;
      at += 1;
    } else if (text.startsWith('*/', at)) {
      depth -= 1;
      at += 1;
      if (depth === 0) return at + 1;
    }
  }
  return text.length;
}

function skipQuoted(text: string, start: number, quote: string, hasBackslashes: boolean): number {
  for (let at = start + 1; at < text.length; at += 1) {
    if (hasBackslashes && text[at] === '\\') at += 1;
    else if (text[at] === quote) {
      if (text[at + 1] !== quote) return at + 1;
      at += 1;
    }
  }
  return text.length;
}
