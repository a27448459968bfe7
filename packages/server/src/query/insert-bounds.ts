// The most that a bounded insert can add to its project, from facts about its table that are cached. No insert waits for them:
// until they are known, it runs like any other.
import { LRUCache } from 'lru-cache';
import type { ProjectLogin } from '../servers/databases/login.ts';
import type { DistrustedTables } from './distrusted-tables.ts';
import { loginKeyOf } from './sessions/login-keys.ts';
import type { BoundedInsert } from './statement/bounded-insert.ts';
import {
  boundOf,
  bytesOfParams,
  type InsertFacts,
  type InsertGuard,
  insertFacts,
  mostOf,
  readFacts,
} from './statement/insert-growth.ts';

export type InsertBounds = {
  /** null: unknown. */
  find(project: ProjectLogin, insert: BoundedInsert, params: readonly unknown[]): Bound | null;
  /** The guard failed: the table has changed, so its facts are read again. */
  doubt(project: ProjectLogin, insert: BoundedInsert): void;
  /**
   * The table grew by more than its inserts could add. If nothing else was there, the bound is wrong, and the table never has one
   * again. `isAlone`: no other statement of this process was.
   */
  suspect(project: ProjectLogin, insert: BoundedInsert, isAlone: boolean): void;
};

export type Bound = Readonly<{
  insert: BoundedInsert;
  /** What it takes from the budget. */
  bytes: number;
  /** What its table can grow by. */
  most: number;
  guard: InsertGuard;
}>;

/** `facts` null: the table does not qualify, or the catalog has not answered yet. */
type Known = { facts: InsertFacts | null; askedAt: number };

/** The guard notices changed tables. Facts are also read again because a table may qualify by now, and because indexes grow. */
const askAgainMs = 10_000;
const doubtMs = 1_000;

type Ask = (project: ProjectLogin, text: string, params: string[]) => Promise<string | null>;

export function openInsertBounds(ask: Ask, distrusted: DistrustedTables): InsertBounds {
  /** By the login: the guard reads a table as the role that inserts. */
  const projects = new LRUCache<string, LRUCache<string, Known>>({ max: 2_000 });
  const tablesOf = (project: ProjectLogin) => {
    const key = loginKeyOf(project);
    const found = projects.get(key);
    if (found) return found;
    const made = new LRUCache<string, Known>({ max: 200 });
    projects.set(key, made);
    return made;
  };
  const read = async (project: ProjectLogin, relation: string): Promise<InsertFacts | null> => {
    const facts = readFacts(await ask(project, insertFacts, [relation]));
    return facts && !(await distrusted.has(project.id, facts.oid)) ? facts : null;
  };
  const learn = (project: ProjectLogin, known: Known, relation: string) => {
    known.askedAt = performance.now();
    read(project, relation)
      .then((facts) => {
        known.facts = facts;
      })
      .catch(() => {
        known.facts = null;
      });
  };
  return {
    find: (project, insert, params) => {
      const tables = tablesOf(project);
      let known = tables.get(insert.relation);
      if (!known) {
        known = { facts: null, askedAt: Number.NEGATIVE_INFINITY };
        tables.set(insert.relation, known);
      }
      if (performance.now() - known.askedAt > askAgainMs) learn(project, known, insert.relation);
      const { facts } = known;
      if (!facts) return null;
      const bytes = boundOf(facts, insert, bytesOfParams(params));
      return { insert, bytes, most: mostOf(facts, insert, bytes), guard: facts.guard };
    },
    doubt: (project, { relation }) => {
      const known = projects.get(loginKeyOf(project))?.get(relation);
      if (!known || performance.now() - known.askedAt < doubtMs) return;
      known.facts = null;
      known.askedAt = Number.NEGATIVE_INFINITY;
    },
    suspect: (project, { relation }, isAlone) => {
      const known = projects.get(loginKeyOf(project))?.get(relation);
      const facts = known?.facts;
      // Another member of its group was first.
      if (!known || !facts) return;
      known.facts = null;
      known.askedAt = performance.now();
      if (isAlone) distrusted.judge(project, relation, facts);
    },
  };
}
