// Saved queries, drafts and the history of a project's console. See docs/console.md.
import { mb } from '../../lib/bytes.ts';

export const maxSavedQueries = { saved: 500, draft: 100 };
/** All texts of a project together. They are in the control database, where limit_mb does not count. */
export const maxSavedMb = 10;

export const maxHistoryEntries = 1_000;
export const historyDays = 30;
/** A longer statement is cut. */
export const maxHistoryChars = 10_000;
/** All texts of a project's history together. */
export const maxHistoryBytes = 4 * mb;
