// Counts the statements that share no session because the project's code may run with them, and tells the operator which projects
// these are and why: such a statement costs a multiple of one that shares.
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { StatementProfile } from './sessions/statement-profiles.ts';

/**
 * What may run the project's code: parts of a relation, of which `relation` stands for kinds that are not followed, such as foreign
 * tables; or what the statement itself names. `statement`: it is no plain statement, such as DDL, or calls a function that is not
 * known to be harmless. `unknown`: the catalog has not answered yet.
 */
const reasons = [
  ...[
    'policy',
    'view',
    'trigger',
    'default',
    'check',
    'index',
    'constraint',
    'foreign key',
    'partition',
    'statistics',
  ],
  ...[
    'column',
    'relation',
    'name',
    'cast',
    'operator',
    'function',
    'type',
    'collation',
    'statement',
    'unknown',
  ],
] as const;

export type Unshared = {
  note(projectId: string, profile: StatementProfile): void;
  counts(): Record<string, number>;
};

const logAgainMs = 60 * 60_000;

export function countUnshared(log: Pick<Logger, 'info'>): Unshared {
  const counts = Object.fromEntries(reasons.map((reason) => [reason, 0]));
  const logged = new LRUCache<string, true>({ max: 5_000, ttl: logAgainMs });
  return {
    note: (projectId, { because, statement }) => {
      const found = because ?? statement.because ?? 'unknown';
      const reason = found in counts ? found : 'statement';
      counts[reason] = (counts[reason] ?? 0) + 1;
      // Every project has such statements now and then: they are counted, but not logged.
      if (reason === 'unknown' || reason === 'statement') return;
      const name = `${projectId} ${reason}`;
      if (logged.has(name)) return;
      logged.set(name, true);
      log.info({ project: projectId, because: reason }, 'statements of a project share no session');
    },
    counts: () => counts,
  };
}
