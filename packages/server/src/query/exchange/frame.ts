// Statements of the service around the caller's: the transaction that a request asks for.
import type { ActingUser } from '../../servers/databases/login.ts';
import { beginning, identifying } from './acting-users.ts';
import type { Command } from './commands.ts';

/** Sent in the same write as the caller's statement. `endsIn`: whether a transaction is open after them. */
export type Frame = {
  before: readonly Command[];
  after: readonly Command[];
  endsIn: 'idle' | 'transaction';
  /** The transaction only reads, whatever the statement does: however it ends, nothing was changed. */
  isReadOnly?: boolean;
};

export const noFrame: Frame = { before: [], after: [], endsIn: 'idle' };

/** In a session that statements share: who acts is set in the implicit transaction of the statement. */
export function sharedFrame(actingUser: ActingUser | undefined): Frame {
  return actingUser ? { before: [identifying(actingUser)], after: [], endsIn: 'idle' } : noFrame;
}

/** What a request asks for beyond running its statement. */
type Wishes = Readonly<{ readOnly: boolean; dryRun: boolean; maxAffected: number | null }>;

/** `isReadSession`: the session is in read-only mode, so a proven read needs no read-only transaction. */
export function needsFrame({ readOnly, dryRun, maxAffected }: Wishes, isReadSession: boolean): boolean {
  return (readOnly && !isReadSession) || dryRun || maxAffected !== null;
}

export function frameOf(wishes: Wishes, actingUser: ActingUser | undefined, isReadSession: boolean): Frame {
  if (!actingUser && !needsFrame(wishes, isReadSession)) return noFrame;
  const { readOnly, dryRun, maxAffected } = wishes;
  const before = beginning(readOnly, actingUser);
  if (maxAffected !== null) return { before, after: [], endsIn: 'transaction', isReadOnly: readOnly };
  return { before, after: [dryRun ? 'rollback' : 'commit'], endsIn: 'idle', isReadOnly: readOnly };
}
