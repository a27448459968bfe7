// Caches the tables of projects and the statements compiled for them. No entry can be used stale: every statement
// contains the versions of its tables (see catalog.ts), and PostgreSQL refuses it once they have changed.
import { LRUCache } from 'lru-cache';
import { RowhouseError } from '../errors/errors.ts';
import { contextOf, inherit, neverRan } from '../query/exchange/failures.ts';
import type { Reader } from '../query/exchange/reader.ts';
import { lookUp } from '../query/look-up.ts';
import type { QueryDeps } from '../query/run.ts';
import type { Statement } from '../query/statement/statement.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import {
  type Ask,
  alwaysChanging,
  areUnchanged,
  changedState,
  findTables,
  getTable,
  isByGuard,
  type MaySee,
  meansTableChanged,
  type Table,
} from './catalog/catalog.ts';
import { TableChangedError } from './sql/embeds.ts';

export type TableDeps = Readonly<{ query: QueryDeps; cache: TableCache }>;

export type TableCache = {
  of(project: ProjectLogin): CachedTables;
  /** For a project that has another database now. */
  forget(projectId: string): void;
  /** After a promotion: versions of tables that were lost with the old primary can be given out again. */
  forgetAll(): void;
};

/** The tables of one project as one role sees them: end users have other privileges on a table than the project itself. */
export type CachedTables = Readonly<{
  byName: LRUCache<string, Table>;
  byOid: LRUCache<number, Table>;
  plans: LRUCache<string, object>;
  statements: LRUCache<string, Statement>;
}>;

const maxProjects = 2_000;
const maxTables = 200;
const maxPlans = 300;

export function openTableCache(): TableCache {
  const byLogin = new LRUCache<string, CachedTables>({ max: maxProjects });
  return {
    of: ({ id, loginAs }) => {
      const key = loginAs === undefined ? id : `${id} ${loginAs}`;
      const known = byLogin.get(key);
      if (known) return known;
      const created: CachedTables = {
        byName: new LRUCache({ max: maxTables }),
        byOid: new LRUCache({ max: maxTables }),
        plans: new LRUCache({ max: maxPlans }),
        statements: new LRUCache({ max: maxPlans }),
      };
      byLogin.set(key, created);
      return created;
    },
    forget: (projectId) => {
      for (const key of byLogin.keys()) {
        if (key === projectId || key.startsWith(`${projectId} `)) byLogin.delete(key);
      }
    },
    forgetAll: () => byLogin.clear(),
  };
}

/** A project's tables for one request. */
export type Tables = Readonly<{
  cache: CachedTables;
  /** The tables that this request got, by oid. */
  used: Map<number, Table>;
  ask: Ask;
  get(name: string): Promise<Table>;
  load(oids: readonly number[]): Promise<readonly Table[]>;
}>;

export function tablesOf({ query, cache }: TableDeps, project: ProjectLogin, maySee: MaySee): Tables {
  const cached = cache.of(project);
  // Catalog queries call no code of the project. Should one ever do so, that code could not write.
  const askCatalog: Ask = (text, parameters) =>
    lookUp(query, project, text, parameters, { readOnly: true, grows: true });
  const used = new Map<number, Table>();
  const use = (table: Table): Table => {
    used.set(table.oid, table);
    return table;
  };
  return {
    cache: cached,
    used,
    ask: askCatalog,
    get: async (name) => {
      const known = cached.byName.get(name);
      if (known && maySee(known)) return use(known);
      const table = await getTable(askCatalog, name, maySee);
      cached.byName.set(name, table);
      return use(table);
    },
    load: async (oids) => {
      const missing = oids.filter((oid) => !cached.byOid.has(oid));
      const found = missing.length > 0 ? await findTables(askCatalog, missing) : [];
      for (const table of found) cached.byOid.set(table.oid, table);
      return oids.flatMap((oid) => cached.byOid.get(oid) ?? []).map(use);
    },
  };
}

const maxAttempts = 5;

/**
 * Runs what `make` compiles from the cached tables. If they turn out to have changed, drops the cache and tries again.
 * `Made.tables` are the tables that it was compiled for.
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
      const hasChanged = error instanceof TableChangedError || saysTableChanged(error);
      if (attempt === maxAttempts && hasChanged)
        throw alwaysChanging(known[0] ?? { name: '' }, 'Retry later.');
      const mayHaveChanged = made === null || neverRan(error) || isGuardError(error, reader);
      const isOutdated =
        hasChanged || (attempt < maxAttempts && mayHaveChanged && (await haveChanged(tables, known)));
      if (!isOutdated) throw withoutInternals(made ? explain(error, made) : error);
      forget(tables);
    }
  }
}

/** Runs `check` on the table as it is now, and throws its error. */
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

/** Removes the position and the statement's number: they refer to compiled SQL that the caller did not write. */
function withoutInternals(error: unknown): unknown {
  if (!(error instanceof RowhouseError)) return error;
  const { code, message, status, hint, retryAfterS, cause } = error;
  const { position, ...sql } = error.sql ?? {};
  const { statement, ...details } = (error.details ?? {}) as Record<string, unknown>;
  if (position === undefined && statement === undefined) return error;
  const copy = new RowhouseError(code, message, {
    status,
    cause,
    ...(error.sql && { sql }),
    ...(Object.keys(details).length > 0 && { details }),
    ...(hint !== undefined && { hint }),
    ...(retryAfterS !== undefined && { retryAfterS }),
  });
  return inherit(copy, error);
}

/**
 * An error of PostgreSQL about the compiled SQL. Errors in the project's code, raised during planning, have a CONTEXT.
 */
function saysTableChanged(error: unknown): boolean {
  if (!(error instanceof RowhouseError) || !neverRan(error)) return false;
  return meansTableChanged(error.sql?.state ?? '', contextOf(error));
}

/** The guard of a type runs with the statement, before its first row; a statement that fails has no effect. */
function isGuardError(error: unknown, reader: Pick<Reader, 'hasBegun'>): boolean {
  if (!(error instanceof RowhouseError) || reader.hasBegun) return false;
  return error.sql?.state === changedState && isByGuard(contextOf(error));
}

/** A failure before the statement ran, or while it was compiled from cached tables, may mean that they have changed. */
async function haveChanged({ ask }: Tables, known: readonly Table[]): Promise<boolean> {
  return known.length > 0 && !(await areUnchanged(ask, known));
}

function forget({ cache: { byName, byOid, plans }, used }: Tables): void {
  byName.clear();
  byOid.clear();
  plans.clear();
  used.clear();
}

const noOtherObjects = { shadowed: [], functions: [], operators: [], types: [], collations: [] };

/**
 * The same text gives the same statement object, so that its profile is found again. `relation`: the quoted table that
 * the statement writes to, if it has foreign keys or partitions. A change of a referenced table makes PostgreSQL replan the
 * foreign key's check, and a trigger on a partition nothing at all, but not the statement with its guard. So the catalog is
 * checked from time to time.
 */
export function statementOf(
  { statements }: CachedTables,
  text: string,
  {
    isPlain,
    writes,
    isDelete = false,
    isInsert = false,
    insert = null,
    rowKey = null,
    relation = null,
    code = null,
  }: Pick<Statement, 'writes'> &
    Partial<Pick<Statement, 'isDelete' | 'isInsert' | 'insert' | 'rowKey'>> & {
      isPlain: boolean;
      code?: string | null;
      relation?: string | null;
    },
): Statement {
  const key = `${isPlain}${relation}${text}`;
  const known = statements.get(key);
  if (known) return known;
  const statement: Statement = {
    effect: writes ? 'rows' : 'none',
    preparable: true,
    writes,
    isRead: !writes,
    reached: isPlain && relation !== null ? { ...noOtherObjects, relations: [relation] } : null,
    because: isPlain ? null : (code ?? 'statement'),
    isProven: isPlain && relation === null,
    lazyText: null,
    isDelete,
    isInsert,
    insert,
    rowKey,
    changes: writes && !isInsert,
    canShrink: false,
    isVacuum: false,
    canCommit: false,
    isParsed: true,
  };
  statements.set(key, statement);
  return statement;
}
