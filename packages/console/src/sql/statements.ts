// What to run of a text with several statements, and which of them to show first what they would change.

import { codeOf, firstWord, type Statement, splitStatements } from '@rowhouse/api/statements';

/** The statement in which the cursor is, or the last one before it. */
export function statementAt(text: string, position: number): Statement | null {
  const all = splitStatements(text);
  return all.find(({ to }) => position <= to + 1) ?? all.at(-1) ?? null;
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
