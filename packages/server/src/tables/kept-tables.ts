// What was read of projects' tables and compiled for them, kept for the next request. None of it can be used stale: every
// statement carries the versions of its tables (see catalog.ts), and is refused by PostgreSQL once they are others.
import { LRUCache } from 'lru-cache';
import type { ProjectLogin } from '../engine/provision.ts';
import { errors } from '../errors.ts';
import { neverRan } from '../query/exchange.ts';
import { ask, type QueryDeps } from '../query/run.ts';
import type { Statement } from '../query/statement.ts';
import { type Ask, areUnchanged, findTables, getTable, type Table } from './catalog.ts';
import { TableChangedError } from './embeds.ts';

export type TableDeps = Readonly<{ query: QueryDeps; kept: KeptTables }>;

/** Of one project. */
export type KeptTables = { of(projectId: string): Kept };
export type Kept = Readonly<{
  byName: LRUCache<string, Table>;
  byOid: LRUCache<number, Table>;
  plans: LRUCache<string, object>;
  statements: LRUCache<string, Statement>;
}>;

const projects = 2_000;
const tablesEach = 200;
const plansEach = 300;

export function keepTables(): KeptTables {
  const houses = new LRUCache<string, Kept>({ max: projects });
  return {
    of: (projectId) => {
      const known = houses.get(projectId);
      if (known) return known;
      const kept: Kept = {
        byName: new LRUCache({ max: tablesEach }),
        byOid: new LRUCache({ max: tablesEach }),
        plans: new LRUCache({ max: plansEach }),
        statements: new LRUCache({ max: plansEach }),
      };
      houses.set(projectId, kept);
      return kept;
    },
  };
}

/** A project's tables for one request. */
export type Tables = Readonly<{
  kept: Kept;
  ask: Ask;
  get(name: string): Promise<Table>;
  load(oids: readonly number[]): Promise<readonly Table[]>;
}>;

export function tablesOf({ query, kept }: TableDeps, project: ProjectLogin): Tables {
  const mine = kept.of(project.id);
  const look: Ask = (text, parameters) => ask(query, project, text, parameters);
  return {
    kept: mine,
    ask: look,
    get: async (name) => {
      const known = mine.byName.get(name);
      if (known) return known;
      const table = await getTable(look, name);
      mine.byName.set(name, table);
      return table;
    },
    load: async (oids) => {
      const missing = oids.filter((oid) => !mine.byOid.has(oid));
      const found = missing.length > 0 ? await findTables(look, missing) : [];
      for (const table of found) mine.byOid.set(table.oid, table);
      return oids.flatMap((oid) => mine.byOid.get(oid) ?? []);
    },
  };
}

/**
 * Runs what `make` makes of the tables as they are kept; if it turns out that they have changed since, once more with
 * what they are now. `tables` of what is made says what it was made for.
 */
export async function withTables<Made extends { tables: readonly Table[] }, Result>(
  tables: Tables,
  make: () => Promise<Made>,
  run: (made: Made) => Promise<Result>,
  explain: (error: unknown, made: Made) => unknown = (error) => error,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    let made: Made | null = null;
    try {
      made = await make();
      return await run(made);
    } catch (error) {
      const isLast = attempt === 3;
      if (isLast && error instanceof TableChangedError) throw errors.unavailable(error);
      if (isLast || !(await isOutdated(tables, made, error))) throw made ? explain(error, made) : error;
      forget(tables.kept);
    }
  }
}

/** Whatever fails before it ran may only mean that the tables are others now. */
async function isOutdated(
  { kept, ask }: Tables,
  made: { tables: readonly Table[] } | null,
  error: unknown,
): Promise<boolean> {
  if (error instanceof TableChangedError) return true;
  // Refused while it was made: by what is kept, which may be old.
  const known = made?.tables ?? [...kept.byName.values(), ...kept.byOid.values()];
  if (made && !neverRan(error)) return false;
  return known.length > 0 && !(await areUnchanged(ask, known));
}

function forget({ byName, byOid, plans }: Kept): void {
  byName.clear();
  byOid.clear();
  plans.clear();
}

/** The same text is the same statement, so that it is known what it usually does. */
export function statementOf(
  { statements }: Kept,
  text: string,
  { isPlain, writes }: { isPlain: boolean; writes: boolean },
): Statement {
  const key = `${isPlain}${text}`;
  const known = statements.get(key);
  if (known) return known;
  const statement: Statement = {
    conduct: writes ? 'data' : 'clean',
    preparable: true,
    writes,
    isRead: !writes,
    relations: null,
    calls: [],
    isProven: isPlain,
    lazyText: null,
    isParsed: true,
  };
  statements.set(key, statement);
  return statement;
}
