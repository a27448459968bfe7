// Parameters of a statement: which it has, and their values for the API.

import { codeOf } from '@rowhouse/api/statements';
import type { Params } from '../drafts/drafts.ts';

/** The numbers of $1, $2 … outside of texts and comments, in order. */
export function parametersOf(sql: string): string[] {
  const found = new Set<number>();
  for (const [, digits] of codeOf(sql).matchAll(/(?<![\w$])\$(\d{1,5})/g)) found.add(Number(digits));
  return [...found].sort((a, b) => a - b).map(String);
}

/** PostgreSQL reads the text of each type itself. A number that does not occur is NULL. */
export function paramValues(sql: string, params: Params): (string | null)[] {
  const numbers = parametersOf(sql).map(Number);
  return Array.from({ length: Math.max(0, ...numbers) }, (_, index) => params[String(index + 1)] ?? null);
}
