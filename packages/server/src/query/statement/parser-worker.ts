// The thread that runs libpg-query, PostgreSQL's own parser. A deeply nested expression can exhaust its stack and leave
// it corrupt; in a thread, this does not affect the service.
import { parentPort } from 'node:worker_threads';
import { loadModule, parseSync } from 'libpg-query';
import { findBoundedInsert } from './bounded-insert.ts';
import { findReferences, type Node } from './references.ts';
import { findRowKey } from './row-key.ts';
import type { Verdict } from './statement.ts';

const transaction = {
  what: 'Transaction commands are not allowed: each request is a transaction of its own.',
  hint: 'Run several statements in one transaction with POST …/batch. Instead of savepoints, use a DO block with EXCEPTION.',
};
const session = {
  what: 'SET is not allowed: session settings do not last until the next request.',
  hint: 'Use set_config(name, value, true) in the statement itself, or as the first statement of POST …/batch.',
};
const prepared = {
  what: 'PREPARE, EXECUTE and DEALLOCATE are not allowed: prepared statements do not last until the next request.',
  hint: 'Send the statement itself with "params". Rowhouse prepares frequent statements automatically.',
};
const listen = {
  what: 'LISTEN and UNLISTEN are not allowed: notifications cannot be delivered over HTTP.',
  hint: 'Listen on a direct connection: GET …/connection returns its address. NOTIFY is allowed here.',
};
const cursor = {
  what: 'Cursors are not allowed: they end with the request.',
  hint: 'Use "limit", or read the whole result as a stream.',
};

const refusals: Record<string, { what: string; hint: string }> = {
  TransactionStmt: transaction,
  VariableSetStmt: session,
  PrepareStmt: prepared,
  ExecuteStmt: prepared,
  DeallocateStmt: prepared,
  ListenStmt: listen,
  UnlistenStmt: listen,
  DeclareCursorStmt: cursor,
  FetchStmt: cursor,
  ClosePortalStmt: cursor,
  LockStmt: {
    what: 'LOCK is not allowed as a request of its own: the lock would end with the request.',
    hint: 'Use POST …/batch with DO $$ begin lock table …; end $$ as its first statement.',
  },
  DiscardStmt: {
    what: 'DISCARD is not allowed: every request already starts with a clean session.',
    hint: 'Omit the statement.',
  },
  LoadStmt: {
    what: 'LOAD is not allowed: libraries cannot be loaded.',
    hint: 'Install one of the available extensions with CREATE EXTENSION.',
  },
};

/** Statements that remove data, or rewrite it in less space. */
const shrinking = new Set([
  'DropStmt',
  'DropOwnedStmt',
  'TruncateStmt',
  'AlterTableStmt',
  'RefreshMatViewStmt',
  'ReindexStmt',
  'ClusterStmt',
  'RenameStmt',
]);

/** Statements that can commit by themselves. CONCURRENTLY is searched for in the text. */
const committing = new Set(['CallStmt', 'DoStmt', 'VacuumStmt', 'ClusterStmt', 'ReindexStmt']);

await loadModule();
parentPort?.on('message', ({ id, text }: { id: number; text: string }) => {
  parentPort?.postMessage({ id, verdict: examine(text) });
});
parentPort?.postMessage('loaded');

function examine(text: string): Verdict {
  let statements: { stmt?: Node }[];
  try {
    statements = (parseSync(text) as { stmts?: { stmt?: Node }[] }).stmts ?? [];
  } catch (error) {
    const isStack = error instanceof RangeError || (error as Error).name === 'RuntimeError';
    return { kind: isStack ? 'broken' : 'invalid' };
  }
  if (statements.length === 0) return { kind: 'empty' };
  if (statements.length > 1) return { kind: 'several', count: statements.length };
  const [name, body] = Object.entries(statements[0]?.stmt ?? {})[0] ?? ['', {}];
  return examineOne(name, body as Node, text);
}

function examineOne(name: string, body: Node, text: string): Verdict {
  const refusal = refusals[name];
  if (refusal) return { kind: 'refused', ...refusal };
  if (name === 'CopyStmt' && !body.filename) {
    return {
      kind: 'refused',
      what: 'COPY FROM STDIN and COPY TO STDOUT are not allowed over HTTP.',
      hint: 'To export rows, use SELECT. To load rows, send CSV or JSON lines to POST …/tables/:table.',
    };
  }
  const isSelect = name === 'SelectStmt' && !body.intoClause;
  const isWrite = ['InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt'].includes(name);
  if (!isSelect && !isWrite)
    return {
      kind: 'statement',
      effect: 'anything',
      preparable: false,
      writes: true,
      isRead: false,
      reached: null,
      lazyText: null,
      isDelete: false,
      isInsert: false,
      insert: null,
      rowKey: null,
      changes: true,
      canShrink: shrinking.has(name),
      isVacuum: name === 'VacuumStmt',
      canCommit: committing.has(name) || /concurrently/i.test(text),
    };
  const found = findReferences({ [name]: body });
  const effect = found.unbounded ? 'anything' : found.writes ? 'rows' : 'none';
  const reached = found.unbounded ? null : found.reached;
  const isRead = !found.writes && !found.locks;
  const lazyText = isRead ? makeLazy(body, text) : null;
  const isChange = name === 'UpdateStmt' || name === 'DeleteStmt';
  const isInsert = name === 'InsertStmt' && !found.changes && !found.locks && !found.unbounded;
  return {
    kind: 'statement',
    effect,
    preparable: true,
    writes: found.writes,
    isRead,
    reached,
    lazyText,
    isDelete: name === 'DeleteStmt' && found.deletesAlone,
    isInsert,
    insert: isInsert ? findBoundedInsert(body) : null,
    rowKey: isChange && reached ? findRowKey(body) : null,
    changes: found.changes,
    canShrink: false,
    isVacuum: false,
    canCommit: false,
  };
}

/**
 * In FROM, PostgreSQL computes a whole series before it returns the first row; in a select list it computes one row at a
 * time. A caller who wants the first few of a billion rows would otherwise never get them. Rewrites only
 * `… from generate_series(…)` with nothing else in FROM and with integers; null if there is nothing to rewrite.
 */
function makeLazy({ fromClause }: Node, text: string): string | null {
  if (!Array.isArray(fromClause) || fromClause.length !== 1) return null;
  const from = (fromClause[0] as { RangeFunction?: Node }).RangeFunction;
  if (!from || from.ordinality || from.is_rowsfrom || from.coldeflist || from.lateral) return null;
  const at = locationOfCall(from.functions);
  if (at === null) return null;
  // The parser counts positions in bytes.
  const start = Buffer.from(text).subarray(0, at).toString().length;
  const call = /^generate_series\s*\([-\d\s,]*\)/i.exec(text.slice(start))?.[0];
  if (!call) return null;
  const { aliasname, colnames } = (from.alias ?? {}) as { aliasname?: string; colnames?: unknown };
  // With column aliases, the table alias alone means the value in one form and a row in the other.
  if (colnames) return null;
  const column = `"${(aliasname ?? 'generate_series').replaceAll('"', '""')}"`;
  const rest = text.slice(start + call.length);
  return `${text.slice(0, start)}(select pg_catalog.${call} as ${column})${aliasname ? '' : ` as ${column}`}${rest}`;
}

/** The position of the only function call in FROM. */
function locationOfCall(functions: unknown): number | null {
  type Call = { FuncCall?: { location?: number } };
  type List = { List?: { items?: Call[] } };
  if (!Array.isArray(functions) || functions.length !== 1) return null;
  return (functions[0] as List).List?.items?.[0]?.FuncCall?.location ?? null;
}
