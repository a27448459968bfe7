// What was read of projects' tables and compiled for them, kept for the next request. None of it can be used stale: every
// statement carries the versions of its tables (see catalog.ts), and is refused by PostgreSQL once they are others.
import { LRUCache } from 'lru-cache';
import type { ProjectLogin } from '../engine/provision.ts';
import { RowhouseError } from '../errors.ts';
import { contextOf, inherit, neverRan } from '../query/exchange/failures.ts';
import type { Reader } from '../query/exchange/reader.ts';
import { ask } from '../query/look-up.ts';
import type { QueryDeps } from '../query/run.ts';
import type { Statement } from '../query/statement/statement.ts';
import {
  type Ask,
  alwaysChanging,
  areUnchanged,
  changedState,
  findTables,
  getTable,
  isByGuard,
  type MaySee,
  saysOtherTable,
  type Table,
} from './catalog/catalog.ts';
import { TableChangedError } from './sql/embeds.ts';

export type TableDeps = Readonly<{ query: QueryDeps; kept: TableCache }>;

export type TableCache = { of(project: ProjectLogin): CachedTables };

/** Of one project, as one role: what its users may read and write of a table is not what the project itself may. */
export type CachedTables = Readonly<{
  byName: LRUCache<string, Table>;
  byOid: LRUCache<number, Table>;
  plans: LRUCache<string, object>;
  statements: LRUCache<string, Statement>;
}>;

const projects = 2_000;
const tablesEach = 200;
const plansEach = 300;

export function openTableCache(): TableCache {
  const byLogin = new LRUCache<string, CachedTables>({ max: projects });
  return {
    of: ({ id, loginAs }) => {
      const key = loginAs === undefined ? id : `${id} ${loginAs}`;
      const known = byLogin.get(key);
      if (known) return known;
      const kept: CachedTables = {
        byName: new LRUCache({ max: tablesEach }),
        byOid: new LRUCache({ max: tablesEach }),
        plans: new LRUCache({ max: plansEach }),
        statements: new LRUCache({ max: plansEach }),
      };
      byLogin.set(key, kept);
      return kept;
    },
  };
}

/** A project's tables for one request. */
export type Tables = Readonly<{
  kept: CachedTables;
  /** What was given out, by number. */
  used: Map<number, Table>;
  ask: Ask;
  get(name: string): Promise<Table>;
  load(oids: readonly number[]): Promise<readonly Table[]>;
}>;

export function tablesOf({ query, kept }: TableDeps, project: ProjectLogin, maySee: MaySee): Tables {
  const mine = kept.of(project);
  // They call nothing of the project's; if one ever did, it could not write.
  const look: Ask = (text, parameters) => ask(query, project, text, parameters, { readOnly: true });
  const used = new Map<number, Table>();
  const give = (table: Table): Table => {
    used.set(table.oid, table);
    return table;
  };
  return {
    kept: mine,
    used,
    ask: look,
    get: async (name) => {
      const known = mine.byName.get(name);
      if (known && maySee(known)) return give(known);
      const table = await getTable(look, name, maySee);
      mine.byName.set(name, table);
      return give(table);
    },
    load: async (oids) => {
      const missing = oids.filter((oid) => !mine.byOid.has(oid));
      const found = missing.length > 0 ? await findTables(look, missing) : [];
      for (const table of found) mine.byOid.set(table.oid, table);
      return oids.flatMap((oid) => mine.byOid.get(oid) ?? []).map(give);
    },
  };
}

const attempts = 5;

/**
 * Runs what `make` makes of the tables as they are kept; if it turns out that they have changed since, again with what
 * they are now. `tables` of what is made says what it was made for.
 */
export async function withTables<Made extends { tables: readonly Table[] }, Result>(
  tables: Tables,
  make: () => Promise<Made>,
  run: (made: Made) => Promise<Result>,
  reader: Pick<Reader, 'hasBegun'>,
  explain: (error: unknown, made: Made) => unknown = (error) => error,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    let made: Made | null = null;
    try {
      made = await make();
      return await run(made);
    } catch (error) {
      const known = made?.tables ?? [...tables.used.values()];
      const isOther = error instanceof TableChangedError || isOtherTable(error);
      if (attempt === attempts && isOther) throw alwaysChanging(known[0] ?? { name: '' }, 'Try again.');
      const mayHave = made === null || neverRan(error) || isGuards(error, reader);
      const isOutdated = isOther || (attempt < attempts && mayHave && (await haveChanged(tables, known)));
      if (!isOutdated) throw withoutOurs(made ? explain(error, made) : error);
      forget(tables);
    }
  }
}

/** Throws what `check` has against the table as it is now. */
export async function requireTable(
  tables: Tables,
  name: string,
  check: (tables: readonly Table[]) => void,
): Promise<void> {
  const make = async () => {
    const table = await tables.get(name);
    check([table]);
    return { tables: [table] };
  };
  await withTables(tables, make, async () => {}, { hasBegun: false });
}

/** A place in our own SQL, or which of our statements it was, is nothing that the caller has written. */
function withoutOurs(error: unknown): unknown {
  if (!(error instanceof RowhouseError)) return error;
  const { code, message, status, hint, retryAfterS, cause } = error;
  const { position, ...sql } = error.sql ?? {};
  const { statement, ...details } = (error.details ?? {}) as Record<string, unknown>;
  if (position === undefined && statement === undefined) return error;
  const copy = new RowhouseError(code, message, {
    ...{ status, cause },
    ...(error.sql && { sql }),
    ...(Object.keys(details).length > 0 && { details }),
    ...(hint !== undefined && { hint }),
    ...(retryAfterS !== undefined && { retryAfterS }),
  });
  return inherit(copy, error);
}

/** Said by PostgreSQL of our own SQL. What it says of the project's, while it plans, has a context. */
function isOtherTable(error: unknown): boolean {
  if (!(error instanceof RowhouseError) || !neverRan(error)) return false;
  return saysOtherTable(error.sql?.state ?? '', contextOf(error));
}

/** The guard of a type is asked when the statement runs, before its first row; a statement that fails leaves nothing. */
function isGuards(error: unknown, reader: Pick<Reader, 'hasBegun'>): boolean {
  if (!(error instanceof RowhouseError) || reader.hasBegun) return false;
  return error.sql?.state === changedState && isByGuard(contextOf(error));
}

/** Whatever fails before it ran, or while it was made of what is kept, may only mean that the tables are others now. */
async function haveChanged({ ask }: Tables, known: readonly Table[]): Promise<boolean> {
  return known.length > 0 && !(await areUnchanged(ask, known));
}

function forget({ kept: { byName, byOid, plans }, used }: Tables): void {
  byName.clear();
  byOid.clear();
  plans.clear();
  used.clear();
}

const nothingElse = { shadowed: [], functions: [], operators: [], types: [], collations: [] };

/**
 * The same text is the same statement, so that it is known what it usually does. `relation`: what it writes to, quoted, if
 * that table has foreign keys. They reach other tables, whose changes make PostgreSQL plan their part anew and not the
 * statement with its guard, so the catalog is asked from time to time.
 */
export function statementOf(
  { statements }: CachedTables,
  text: string,
  {
    isPlain,
    writes,
    isDelete = false,
    isInsert = false,
    relation = null,
  }: { isPlain: boolean; writes: boolean; isDelete?: boolean; isInsert?: boolean; relation?: string | null },
): Statement {
  const key = `${isPlain}${relation}${text}`;
  const known = statements.get(key);
  if (known) return known;
  const statement: Statement = {
    effect: writes ? 'rows' : 'none',
    preparable: true,
    writes,
    isRead: !writes,
    reached: isPlain && relation !== null ? { ...nothingElse, relations: [relation] } : null,
    isProven: isPlain && relation === null,
    lazyText: null,
    isDelete,
    isInsert,
    changes: writes && !isInsert,
    canShrink: false,
    isVacuum: false,
    canCommit: false,
    isParsed: true,
  };
  statements.set(key, statement);
  return statement;
}
