// The most that a bounded insert can add to its project, from facts about its table that are cached. No insert waits for them:
// until they are known, it runs like any other.
import { LRUCache } from 'lru-cache';
import type { ProjectLogin } from '../engine/provision.ts';
import type { BoundedInsert } from './statement/bounded-insert.ts';
import {
  boundOf,
  bytesOfParams,
  type InsertFacts,
  insertFacts,
  readFacts,
} from './statement/insert-growth.ts';

export type InsertBounds = {
  /** null: unknown. `guard`: a statement that has to succeed after the insert, in the same transaction. */
  find(
    project: ProjectLogin,
    insert: BoundedInsert,
    params: readonly unknown[],
  ): Readonly<{ bytes: number; guard: string }> | null;
  /** The guard failed: the table has changed, so its facts are read again. */
  doubt(projectId: string, insert: BoundedInsert): void;
};

/** `facts` null: the table does not qualify, or the catalog has not answered yet. */
type Known = { facts: InsertFacts | null; askedAt: number };

/** The guard notices changed tables. Facts are also read again because a table may qualify by now, and because indexes grow. */
const askAgainMs = 10_000;
const doubtMs = 1_000;

type Ask = (project: ProjectLogin, text: string, params: string[]) => Promise<string | null>;

export function openInsertBounds(ask: Ask): InsertBounds {
  const projects = new LRUCache<string, LRUCache<string, Known>>({ max: 2_000 });
  const tablesOf = (projectId: string) => {
    const found = projects.get(projectId);
    if (found) return found;
    const made = new LRUCache<string, Known>({ max: 200 });
    projects.set(projectId, made);
    return made;
  };
  const learn = (project: ProjectLogin, known: Known, relation: string) => {
    known.askedAt = performance.now();
    ask(project, insertFacts, [relation])
      .then((answer) => {
        known.facts = readFacts(answer);
      })
      .catch(() => {
        known.facts = null;
      });
  };
  return {
    find: (project, insert, params) => {
      const tables = tablesOf(project.id);
      let known = tables.get(insert.relation);
      if (!known) {
        known = { facts: null, askedAt: Number.NEGATIVE_INFINITY };
        tables.set(insert.relation, known);
      }
      if (performance.now() - known.askedAt > askAgainMs) learn(project, known, insert.relation);
      const { facts } = known;
      return facts && { bytes: boundOf(facts, insert, bytesOfParams(params)), guard: facts.guard };
    },
    doubt: (projectId, { relation }) => {
      const known = projects.get(projectId)?.get(relation);
      if (!known || performance.now() - known.askedAt < doubtMs) return;
      known.facts = null;
      known.askedAt = Number.NEGATIVE_INFINITY;
    },
  };
}
