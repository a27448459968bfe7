// Judges a text that is too large to parse by its first word. Only statements that have a reason to be so large are sent
// to PostgreSQL. Statements that the parser would refuse are refused here with the same error.

/** The limit for comments before the first word, nested ones included. Any text is judged within milliseconds. */
const maxSteps = 50_000;

/** Statements that can be this large because of their literals or their body. */
const allowed = new Set([
  ...['select', 'values', 'table', 'with', 'insert', 'update', 'delete', 'merge', 'explain', 'do', 'call'],
  ...['create', 'alter', 'drop', 'truncate', 'comment', 'grant', 'revoke'],
]);

/** For each first word of a refused statement, a short statement that the parser refuses with the same error. */
const samples: Readonly<Record<string, string>> = {
  begin: 'begin',
  start: 'start transaction',
  commit: 'commit',
  end: 'end',
  rollback: 'rollback',
  abort: 'abort',
  savepoint: 'savepoint a',
  release: 'release a',
  set: 'set a to b',
  reset: 'reset a',
  prepare: 'prepare a as select 1',
  execute: 'execute a',
  deallocate: 'deallocate a',
  listen: 'listen a',
  unlisten: 'unlisten a',
  declare: 'declare a cursor for select 1',
  fetch: 'fetch a',
  move: 'move a',
  close: 'close a',
  lock: 'lock a',
  discard: 'discard all',
  load: "load 'a'",
  copy: 'copy a from stdin',
};

/** `likeText`: a short text that the parser refuses with the same error. */
export type OversizedText =
  | { is: 'allowed' }
  | { is: 'empty' | 'other' }
  | { is: 'refused'; likeText: string };

export function judgeOversizedText(text: string): OversizedText {
  const start = skipLead(text);
  if (start === null) return { is: 'empty' };
  // PostgreSQL has the best error message for a text that does not begin with a word.
  const word = /^[a-z_]+/i.exec(text.slice(start, start + 64))?.[0].toLowerCase();
  if (word === undefined || allowed.has(word)) return { is: 'allowed' };
  const likeText = Object.hasOwn(samples, word) ? samples[word] : undefined;
  return likeText === undefined ? { is: 'other' } : { is: 'refused', likeText };
}

/** The position of the first word after blanks, semicolons, parentheses and (nested) comments; null if there is none. */
function skipLead(text: string): number | null {
  const mark = /[^ \t\n\r\f\v;(]/g;
  const comment = /\/\*|\*\//g;
  const lineEnd = /[\n\r]/g;
  const next = (pattern: RegExp, from: number): RegExpExecArray | null => {
    pattern.lastIndex = from;
    return pattern.exec(text);
  };
  let depth = 0;
  for (let at = 0, steps = 0; steps < maxSteps; steps++) {
    const found = next(depth > 0 ? comment : mark, at);
    if (!found) return null;
    const { index } = found;
    if (depth > 0 || text.startsWith('/*', index)) {
      depth += text.startsWith('/*', index) ? 1 : -1;
      at = index + 2;
    } else if (text.startsWith('--', index)) {
      at = next(lineEnd, index)?.index ?? text.length;
    } else return index;
  }
  return null;
}
