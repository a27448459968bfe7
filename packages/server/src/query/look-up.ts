// A question of the service itself to a project, in a session of its pool, such as a look-up in the catalog. Which way a statement
// of the service takes in a project: src/postgres/README.md.
import type { ProjectLogin } from '../servers/databases/login.ts';
import type { Command } from './exchange/commands.ts';
import { noReader } from './exchange/reader.ts';
import { type ExclusiveDeps, withSession } from './sessions/exclusive.ts';

/** A catalog look-up takes milliseconds. If one takes longer than this, the server is in trouble. */
const lookUpTimeoutMs = 10_000;

type Options = {
  timeoutMs?: number;
  /** How long it may wait until it begins. Left out: that is part of `timeoutMs`. */
  maxWaitMs?: number;
  /** It calls nothing that the project defined. */
  isPlain?: boolean;
  /** Runs before it, in the same transaction. */
  first?: readonly Command[];
  /** Runs after it, in the same transaction. */
  last?: readonly Command[];
  /** It changes something: if the session breaks while it runs, the outcome is unknown. */
  changes?: boolean;
  /** The project's code that it may run after all writes nothing. */
  readOnly?: boolean;
  /** See `Session.hasGrown`. */
  grows?: boolean;
};

/** The first value of the first row. */
export function lookUp(
  deps: ExclusiveDeps,
  project: ProjectLogin,
  query: string,
  parameters: (string | null)[],
  options: Options = {},
): Promise<string | null> {
  const { timeoutMs = lookUpTimeoutMs, maxWaitMs, ...question } = options;
  const { isPlain = true, readOnly = false } = question;
  const use = !isPlain ? 'any' : readOnly ? 'read' : 'plain';
  const terms = { reader: noReader(), timeoutMs, use, maxWaitMs } as const;
  return withSession(deps, project, terms, (exclusive) => exclusive.ask(query, parameters, question));
}
