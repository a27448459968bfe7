// A text that is too large to be parsed here is judged by its first word: only statements that have a reason to be so large
// are sent to PostgreSQL. What is refused of a parsed text is refused here with the same error.

/** How far the first word may be: whatever a text holds, it is found out within milliseconds. */
const maxLead = 1024 * 1024;

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
export type LargeText = { is: 'allowed' } | { is: 'empty' | 'other' } | { is: 'refused'; likeText: string };

export function judgeLargeText(text: string): LargeText {
  const lead = text.slice(0, maxLead);
  const start = skipLead(lead);
  if (start === null) return { is: 'empty' };
  // PostgreSQL says better than we could what is wrong with a text that begins with no word.
  const word = /^[a-z_]+/i.exec(lead.slice(start, start + 64))?.[0].toLowerCase();
  if (word === undefined || allowed.has(word)) return { is: 'allowed' };
  const likeText = Object.hasOwn(samples, word) ? samples[word] : undefined;
  return likeText === undefined ? { is: 'other' } : { is: 'refused', likeText };
}

/** Where the first word is: behind blanks, comments, semicolons and parentheses. null: there is none. */
function skipLead(lead: string): number | null {
  let at = 0;
  while (at < lead.length) {
    const next = skipOne(lead, at);
    if (next === at) return at;
    at = next;
  }
  return null;
}

function skipOne(lead: string, at: number): number {
  if (lead.startsWith('--', at)) return endOfLine(lead, at);
  if (lead.startsWith('/*', at)) return endOfComment(lead, at);
  return ' \t\n\r\f\v;('.includes(lead.charAt(at)) ? at + 1 : at;
}

function endOfLine(lead: string, from: number): number {
  const ends = /[\n\r]/g;
  ends.lastIndex = from;
  return ends.exec(lead)?.index ?? lead.length;
}

/** Comments are nested. */
function endOfComment(lead: string, from: number): number {
  const marks = /\/\*|\*\//g;
  marks.lastIndex = from;
  let depth = 0;
  for (let mark = marks.exec(lead); mark; mark = marks.exec(lead)) {
    depth += mark[0] === '/*' ? 1 : -1;
    if (depth === 0) return marks.lastIndex;
  }
  return lead.length;
}
