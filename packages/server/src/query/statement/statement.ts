// The properties of a statement that are known before it is sent. The types are apart from the parser, because its thread, its cache
// and everything that runs statements share them.
import type { BoundedInsert } from './bounded-insert.ts';
import type { Reached } from './references.ts';
import type { RowKey } from './row-key.ts';

/**
 * What a statement can leave behind in its session. none: nothing. rows: it changes rows, and a trigger or default may
 * change the session's state. anything: it is DO, CALL or DDL, or calls functions not known to be harmless.
 */
export type SessionEffect = 'none' | 'rows' | 'anything';
export type Statement = Readonly<{
  effect: SessionEffect;
  preparable: boolean;
  /** It changes rows, so it must run to its end even if only some of its rows are wanted. */
  writes: boolean;
  /** It names no change and takes no locks. Unless its effect is `anything`, it can run twice without harm. */
  isRead: boolean;
  /** The objects that it names, if it can reach no others; null if that is unknown. */
  reached: Reached | null;
  /** What of it may run code of the project, if that is known without asking the catalog (unshared.ts). */
  because: string | null;
  /** Compiled by the service, for tables known to run no code: it leaves nothing in a session. */
  isProven: boolean;
  /** An equivalent text that returns its first rows before it has computed all; null if there is nothing to gain. */
  lazyText: string | null;
  isDelete: boolean;
  /** It only adds rows to tables, apart from changing a row that an upsert conflicts with. */
  isInsert: boolean;
  /** An insert of rows whose size is known before it runs. */
  insert: BoundedInsert | null;
  /** An update or delete of rows that parameters select by equality. */
  rowKey: RowKey | null;
  /** It can change or remove existing rows. */
  changes: boolean;
  /** It can free space by the time it is committed. */
  canShrink: boolean;
  /** It makes nothing larger, and cannot run in a transaction. */
  isVacuum: boolean;
  /** It can commit by itself, before its end or at it. */
  canCommit: boolean;
  /** False for a text too large to be parsed. */
  isParsed: boolean;
}>;

/** The effect of both together. */
export function worstEffect(one: SessionEffect, other: SessionEffect): SessionEffect {
  return order.indexOf(one) > order.indexOf(other) ? one : other;
}
const order: SessionEffect[] = ['none', 'rows', 'anything'];

/** The result of the parser's thread for a text. */
export type Verdict =
  | {
      kind: 'statement';
      effect: SessionEffect;
      preparable: boolean;
      writes: boolean;
      isRead: boolean;
      reached: Reached | null;
      lazyText: string | null;
      isDelete: boolean;
      isInsert: boolean;
      insert: BoundedInsert | null;
      rowKey: RowKey | null;
      changes: boolean;
      canShrink: boolean;
      isVacuum: boolean;
      canCommit: boolean;
    }
  | { kind: 'refused'; what: string; hint: string }
  | { kind: 'several'; count: number }
  | { kind: 'empty' | 'invalid' | 'broken' };
