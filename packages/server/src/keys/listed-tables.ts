// The tables that a key lists. For the holder of such a key no other table exists.
import type { Caller } from './caller.ts';

/** null: all tables. */
export function listOf(caller: Caller): readonly string[] | null {
  return caller.kind === 'account' ? null : caller.tables;
}

export function lists(
  tables: readonly string[],
  { schema, name }: { schema: string; name: string },
): boolean {
  return tables.includes(`${schema}.${name}`) || (schema === 'public' && tables.includes(name));
}

/** Whether a key with the one list reaches no more than one with the other. null: all tables. */
export function isWithin(one: readonly string[] | null, other: readonly string[] | null): boolean {
  if (other === null) return true;
  return one?.every((entry) => namesOf(entry).some((name) => other.includes(name))) ?? false;
}

/** A table of the schema public has two names. */
function namesOf(entry: string): string[] {
  if (entry.startsWith('public.')) return [entry, entry.slice('public.'.length)];
  return entry.includes('.') ? [entry] : [entry, `public.${entry}`];
}
