// A text that is too large to be parsed here is judged by its first word: only statements that have a reason to be so large
// are sent to PostgreSQL. What is refused of a parsed text is refused here with the same error.

/** So many comments before the first word, or inside of each other: whatever a text holds, it is judged in milliseconds. */
const maxSteps = 50_000;

/** Statements that can be this large: by their literals, or by their body. */
const allowed = new Set([
  ...['select', 'values', 'table', 'with', 'insert', 'update', 'delete', 'merge', 'explain', 'do', 'call'],
  ...['create', 'alter', 'drop', 'truncate', 'comment', 'grant', 'revoke'],
]);

/** For each word that begins a statement which is not run over HTTP, a short one that the parser refuses the same way. */
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

/** `likeText`: it is refused as this is. */
export type OversizedText =
  | { is: 'allowed' }
  | { is: 'empty' | 'other' }
  | { is: 'refused'; likeText: string };

export function judgeOversizedText(text: string): OversizedText {
  const start = skipLead(text);
  if (start === null) return { is: 'empty' };
  // PostgreSQL says better than we could what is wrong with a text that begins with no word.
  const word = /^[a-z_]+/i.exec(text.slice(start, start + 64))?.[0].toLowerCase();
  if (word === undefined || allowed.has(word)) return { is: 'allowed' };
  const likeText = Object.hasOwn(samples, word) ? samples[word] : undefined;
  return likeText === undefined ? { is: 'other' } : { is: 'refused', likeText };
}

/** Where the first word is: behind blanks, semicolons, parentheses and comments, which are nested. null: there is none. */
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
