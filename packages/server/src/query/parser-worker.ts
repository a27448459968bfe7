// The thread in which libpg-query (PostgreSQL's own parser) runs. A nested expression can exhaust its stack and leave
// it corrupt; here that costs a thread, not the service.
import { parentPort } from 'node:worker_threads';
import { loadModule, parseSync } from 'libpg-query';
import { harmlessFunctions } from './harmless-functions.ts';
import type { Conduct } from './statement.ts';

export type Verdict =
  | {
      kind: 'statement';
      conduct: Conduct;
      preparable: boolean;
      writes: boolean;
      isRead: boolean;
      relations: string[] | null;
      calls: string[];
      lazyText: string | null;
      isDelete: boolean;
      isInsert: boolean;
      canShrink: boolean;
      isVacuum: boolean;
      canCommit: boolean;
    }
  | { kind: 'refused'; what: string; hint: string }
  | { kind: 'several'; count: number }
  | { kind: 'empty' | 'invalid' | 'broken' };

type Node = Record<string, unknown>;

const transaction = {
  what: 'Transactions make no sense over HTTP: each request is one of its own.',
  hint: 'POST …/batch runs several statements in one; a DO block with EXCEPTION does what savepoints do.',
};
const session = {
  what: 'A setting for the session makes no sense over HTTP: nothing stays for the next request.',
  hint: 'Use set_config(name, value, true), inside the statement or as the first one of POST …/batch.',
};
const prepared = {
  what: 'Prepared statements make no sense over HTTP: nothing stays for the next request.',
  hint: 'Send the statement itself with "params"; Rowhouse prepares what is sent often.',
};
const listen = {
  what: 'LISTEN makes no sense over HTTP: nobody would be there to hear.',
  hint: 'Use a direct connection for LISTEN. NOTIFY works here.',
};
const cursor = {
  what: 'A cursor makes no sense over HTTP: it ends with the request.',
  hint: 'Use "limit", or read the whole result as it streams.',
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
    what: 'A lock of its own makes no sense over HTTP: it ends with the request.',
    hint: 'Use POST …/batch, with DO $$ begin lock table …; end $$ as its first statement.',
  },
  DiscardStmt: {
    what: 'There is nothing to discard: every request finds a clean session.',
    hint: 'Leave it out.',
  },
  LoadStmt: { what: 'Libraries cannot be loaded.', hint: 'CREATE EXTENSION brings what is available.' },
};

/** What takes away, or writes anew in less room. */
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

/** Without CONCURRENTLY, which is looked for in the text. */
const committing = new Set(['CallStmt', 'DoStmt', 'VacuumStmt', 'ClusterStmt', 'ReindexStmt']);

await loadModule();
parentPort?.on('message', ({ id, text }: { id: number; text: string }) => {
  parentPort?.postMessage({ id, verdict: examine(text) });
});

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
      what: 'COPY to or from the client makes no sense here: the data would have no way.',
      hint: 'SELECT gives rows; INSERT with "params" or the table endpoints take them.',
    };
  }
  const isSelect = name === 'SelectStmt' && !body.intoClause;
  const isWrite = ['InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt'].includes(name);
  if (!isSelect && !isWrite)
    return {
      kind: 'statement',
      ...{ conduct: 'wild', preparable: false, writes: true, isRead: false },
      relations: null,
      calls: [],
      lazyText: null,
      isDelete: false,
      isInsert: false,
      canShrink: shrinking.has(name),
      isVacuum: name === 'VacuumStmt',
      canCommit: committing.has(name) || /concurrently/i.test(text),
    };
  const found = survey({ [name]: body });
  const conduct = found.wild ? 'wild' : found.writes ? 'data' : 'clean';
  // An update or delete can cascade to tables that are not named here.
  const relations = found.changes ? null : found.relations;
  const isRead = !found.writes && !found.locks;
  const lazyText = isRead ? makeLazy(body, text) : null;
  return {
    kind: 'statement',
    ...{ conduct, preparable: true, writes: found.writes, isRead, relations, calls: found.calls, lazyText },
    isDelete: name === 'DeleteStmt' && found.deletesAlone,
    isInsert: name === 'InsertStmt' && !found.changes && !found.locks && !found.wild,
    canShrink: false,
    isVacuum: false,
    canCommit: false,
  };
}

type Survey = {
  /** Calls what is not known to be harmless. */
  wild: boolean;
  writes: boolean;
  /** Removes rows, and neither adds nor changes any. */
  deletesAlone: boolean;
  /** Changes or removes rows that were there before. */
  changes: boolean;
  locks: boolean;
  relations: string[];
  /** What may be a function's name: `row.name` calls one if there is no such column. */
  calls: string[];
};

/** What is called, named and done anywhere below, CTEs included. Without recursion: trees can be deep. */
function survey(root: Node): Survey {
  const pending: unknown[] = [root];
  let wild = false;
  let writes = false;
  let changes = false;
  let adds = false;
  let locks = false;
  const relations = new Set<string>();
  const calls = new Set<string>();
  while (pending.length > 0) {
    const node = pending.pop();
    if (Array.isArray(node)) {
      pending.push(...node);
      continue;
    }
    if (typeof node !== 'object' || node === null) continue;
    for (const [key, value] of Object.entries(node)) {
      if (key === 'RangeVar' || key === 'relation') relations.add(nameOf(value as Node));
      if (key === 'lockingClause') locks = true;
      if (key === 'FuncCall') {
        wild ||= !isHarmless(value as Node);
        calls.add(namesOf((value as Node).funcname).at(-1) ?? '');
      }
      if (key === 'ColumnRef') {
        const [, ...further] = namesOf((value as Node).fields);
        for (const called of further) calls.add(called);
      }
      if (key === 'indirection') for (const called of namesOf(value)) calls.add(called);
      if (key === 'InsertStmt') writes = true;
      if (['InsertStmt', 'UpdateStmt', 'MergeStmt'].includes(key)) adds = true;
      if (key === 'UpdateStmt' || key === 'DeleteStmt' || key === 'MergeStmt') writes = changes = true;
      if (key === 'onConflictClause') changes ||= (value as Node).action !== 'ONCONFLICT_NOTHING';
      if (typeof value === 'object') pending.push(value);
    }
  }
  return {
    wild,
    writes,
    deletesAlone: writes && !adds && !wild,
    changes,
    locks,
    relations: [...relations],
    calls: [...calls],
  };
}

/**
 * PostgreSQL makes the whole of a series in FROM before the first row of it is seen; in a select list it makes one row
 * after the other. For a caller who wants the first few of a billion that is the difference between never and now.
 * Only `… from generate_series(…)` alone, with whole numbers, is written so; null: as it was.
 */
function makeLazy({ fromClause }: Node, text: string): string | null {
  if (!Array.isArray(fromClause) || fromClause.length !== 1) return null;
  const from = (fromClause[0] as { RangeFunction?: Node }).RangeFunction;
  if (!from || from.ordinality || from.is_rowsfrom || from.coldeflist || from.lateral) return null;
  const at = locationOfCall(from.functions);
  if (at === null) return null;
  // Positions are counted in bytes.
  const start = Buffer.from(text).subarray(0, at).toString().length;
  const call = /^generate_series\s*\([-\d\s,]*\)/i.exec(text.slice(start))?.[0];
  if (!call) return null;
  const { aliasname, colnames } = (from.alias ?? {}) as { aliasname?: string; colnames?: unknown };
  // With names of its own for the columns, the alias alone means the value in one form and a row in the other.
  if (colnames) return null;
  const column = `"${(aliasname ?? 'generate_series').replaceAll('"', '""')}"`;
  const rest = text.slice(start + call.length);
  return `${text.slice(0, start)}(select pg_catalog.${call} as ${column})${aliasname ? '' : ` as ${column}`}${rest}`;
}

/** Where the only function of FROM is called. */
function locationOfCall(functions: unknown): number | null {
  type Call = { FuncCall?: { location?: number } };
  type List = { List?: { items?: Call[] } };
  if (!Array.isArray(functions) || functions.length !== 1) return null;
  return (functions[0] as List).List?.items?.[0]?.FuncCall?.location ?? null;
}

function isHarmless({ funcname }: Node): boolean {
  const names = namesOf(funcname);
  if (names.length > 2 || (names.length === 2 && names[0] !== 'pg_catalog')) return false;
  const name = names.at(-1) ?? '';
  return harmlessFunctions.has(name);
}

function namesOf(parts: unknown): string[] {
  if (!Array.isArray(parts)) return [];
  return (parts as { String?: { sval?: string } }[]).flatMap((part) => part.String?.sval ?? []);
}

/** As PostgreSQL's to_regclass reads it. A name that a CTE has taken is looked up in vain, and that is no harm. */
function nameOf({ schemaname, relname }: Node): string {
  const quote = (name: unknown) => `"${String(name).replaceAll('"', '""')}"`;
  return schemaname ? `${quote(schemaname)}.${quote(relname)}` : quote(relname);
}
