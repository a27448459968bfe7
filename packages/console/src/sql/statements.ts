// What to run of a text with several statements, and which of them to show first what they would change.

export type Statement = { from: number; to: number; text: string };

/** Statements of a text, split at semicolons outside of quotes, comments and dollar quotes, with their places. */
export function splitStatements(text: string): Statement[] {
  const statements: Statement[] = [];
  let start = 0;
  let at = 0;
  while (at < text.length) {
    if (text[at] === ';') {
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

/** The statement in which the cursor is, or the last one before it. */
export function statementAt(text: string, position: number): Statement | null {
  const all = splitStatements(text);
  return all.find(({ to }) => position <= to + 1) ?? all.at(-1) ?? null;
}

/** The first keyword, in lower case, after comments. */
export function firstWord(sql: string): string {
  const at = skipBlank(sql, 0, sql.length);
  return /^[a-z]+/i.exec(sql.slice(at))?.[0].toLowerCase() ?? '';
}

export type Effect = 'reads' | 'changes-rows' | 'changes-schema';

/**
 * By keywords, only to decide whether to ask first. The preview itself comes from PostgreSQL. DO and CALL run at once: their code can
 * commit, and a preview could not undo that.
 */
export function effectOf(sql: string): Effect {
  const word = firstWord(sql);
  if (['update', 'delete', 'merge'].includes(word)) return 'changes-rows';
  if (['drop', 'truncate', 'alter'].includes(word)) return 'changes-schema';
  return changing[word]?.test(codeOf(sql)) ? 'changes-rows' : 'reads';
}

/** Whether EXPLAIN can tell how many rows the statement changes. */
export const isPlanned = (sql: string) => effectOf(sql) === 'changes-rows' && firstWord(sql) !== 'explain';

/** Statements that change rows only with one of these words in them. */
const changing: Readonly<Record<string, RegExp>> = {
  with: /\b(update|delete|merge)\b/i,
  insert: /\bdo\s+update\b/i,
  explain: /\banaly[sz]e\b.*\b(insert|update|delete|merge)\b/is,
};

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
