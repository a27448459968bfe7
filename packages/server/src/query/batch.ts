// Several statements in one transaction: a caller's batch, a script of another protocol, changes that belong together.

import { errors } from '../errors/errors.ts';
import type { Measure } from '../quotas/size-check.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import { closing, growthOf, mayGrow, ownSize, withHeadroom } from './admission.ts';
import { affectedBy, formOf } from './answer.ts';
import { runsAlone } from './exchange/acting-users.ts';
import type { Form, StatementInput } from './exchange/answer-writer.ts';
import { StatementFailed } from './exchange/failures.ts';
import type { Frame } from './exchange/frame.ts';
import { HeldAnswer } from './exchange/held-answer.ts';
import type { Reader } from './exchange/reader.ts';
import { canBeOneWrite, inOneWrite } from './one-write.ts';
import type { CompiledQuery, QueryDeps } from './run.ts';
import { type SessionTerms, type Supervise, withSession } from './sessions/exclusive.ts';
import { mayBePlain, type StatementProfile } from './sessions/statement-profiles.ts';
import type { Statement } from './statement/statement.ts';
import { atIndex, type Parts, type Step } from './steps.ts';

/** `expectAffected`: with any other number of affected rows, everything is rolled back. */
export type BatchStatement = StatementInput & Readonly<{ expectAffected?: number }>;

export type BatchInput = Readonly<{
  statements: readonly BatchStatement[];
  timeoutMs: number;
  readOnly: boolean;
}>;

/** `listName`: what the caller calls the list of statements. */
export type ScriptInput = Omit<BatchInput, 'readOnly'> & Readonly<{ begin: string; listName: string }>;

const [firstForm, nextForm] = [formOf('{'), formOf(',{')];
const inTransaction: Frame = { before: [], after: [], endsIn: 'transaction' };

/** All in one transaction, with a result for each. */
export async function runBatch(
  deps: QueryDeps,
  project: ProjectLogin,
  { readOnly, ...input }: BatchInput,
  reader: Reader,
): Promise<Buffer | HeldAnswer> {
  const script = { ...input, begin: readOnly ? 'begin read only' : 'begin', listName: 'statements' };
  const { held, parts } = await runScript(deps, project, script, [firstForm, nextForm], reader);
  return held.compose([Buffer.from('{"ok":true,"results":['), ...parts.flat(), Buffer.from(']}')]).close();
}

/** The same, with any BEGIN and any form of answer. */
export async function runScript(
  deps: QueryDeps,
  project: ProjectLogin,
  input: ScriptInput,
  [first, next]: readonly [Form, Form],
  reader: Reader,
): Promise<Parts> {
  const statements: Statement[] = [];
  for (const [index, { query }] of input.statements.entries()) {
    const statement =
      deps.parser.recall(project.id, query) ??
      (await deps.parser.parse(project, query).catch((error) => throwAt(error, index)));
    // A statement that was not parsed could end the transaction in the middle of the batch.
    if (!statement.isParsed) {
      throw errors.invalidRequest([
        {
          path: `${input.listName}.${index}.query`,
          problem: 'must be at most 1 MB in a batch; send it alone, or pass the values in "params"',
        },
      ]);
    }
    statements.push(statement);
  }
  const steps = statements.map((statement, index) => ({
    statement,
    input: input.statements[index] as StatementInput,
    form: index ? next : first,
    expectAffected: input.statements[index]?.expectAffected,
  }));
  const terms = { reader, timeoutMs: input.timeoutMs, use: 'any' as const };
  return together(deps, project, { terms, begin: input.begin, maxAffected: null, steps });
}

/** Several compiled statements in one transaction. */
export function runTogether(
  deps: QueryDeps,
  project: ProjectLogin,
  steps: readonly Step[],
  { timeoutMs, maxAffected }: Pick<CompiledQuery, 'timeoutMs' | 'maxAffected'>,
  reader: Reader,
): Promise<Parts> {
  return together(deps, project, {
    terms: { reader, timeoutMs, use: 'any' },
    begin: 'begin',
    maxAffected,
    steps,
  });
}

type Script = Readonly<{
  terms: SessionTerms;
  begin: string;
  maxAffected: number | null;
  steps: readonly Step[];
}>;

async function together(deps: QueryDeps, project: ProjectLogin, script: Script): Promise<Parts> {
  const statements = script.steps.map(({ statement }) => statement);
  const isRead = statements.every((statement) => statement.isRead);
  // In a session in read-only mode, nothing grows.
  const read = isRead ? await togetherInOneWrite(deps, project, script, null) : null;
  if (read) return read;
  const run = async (measure: Measure | null, supervise?: Supervise) => {
    const supervised = { ...script, ...(supervise && { supervise }) };
    const parts = isRead ? null : await togetherInOneWrite(deps, project, supervised, measure);
    return parts ?? togetherOnce(deps, project, supervised, measure);
  };
  if (!statements.some((statement) => mayGrow(statement, false))) return run(null);
  const growth = growthOf(statements, { canCommit: false, isUndone: false, changes: true });
  return withHeadroom(deps.admission, { project, growth, reader: script.terms.reader }, run);
}

/** null: it has to run one by one, and nothing of it has happened. */
async function togetherInOneWrite(
  deps: QueryDeps,
  project: ProjectLogin,
  { terms, steps, supervise, ...script }: Script & { supervise?: Supervise },
  measure: Measure | null,
): Promise<Parts | null> {
  if (measure?.isFull || measure?.comparesOwn || runsAlone(project)) return null;
  const profiles = steps.map(({ statement }) => deps.profiles.of(project, statement));
  if (!canBeOneWrite(steps, profiles, script)) return null;
  return inOneWrite(deps, project, { ...terms, ...(supervise && { supervise }) }, steps, profiles, measure);
}

function togetherOnce(
  deps: QueryDeps,
  project: ProjectLogin,
  { terms, begin, maxAffected, steps, supervise }: Script & { supervise?: Supervise },
  measure: Measure | null,
): Promise<Parts> {
  return withSession(deps, project, { ...terms, ...(supervise && { supervise }) }, async (exclusive) => {
    const own = await ownSize(exclusive, measure);
    const profiles = steps.map(({ statement }) => deps.profiles.of(project, statement));
    // If a statement of the batch runs code, answers of the catalog from before it are worthless. Then all statements are judged
    // together, after the batch. A text that has not run before may never come again.
    if (profiles.every((profile) => mayBePlain(profile) && (isInsert(profile) || profile.hasRun)))
      await exclusive.knowAll(profiles);
    const readOnly = begin.includes('read only');
    await exclusive.begin(begin, readOnly);
    const held = new HeldAnswer(project);
    exclusive.onFailure = () => held.release();
    const parts: Buffer[][] = [];
    let affected = 0;
    for (const [index, step] of steps.entries()) {
      const first = held.end;
      const exchange = exclusive.exchange(step, held, { ...inTransaction, isReadOnly: readOnly });
      await exclusive
        .run(exchange, profiles[index] as StatementProfile)
        .catch((error) => throwAt(error, index));
      held.write(exchange.close());
      parts.push(held.takeFrom(first));
      const now = affectedBy(exchange);
      affected += now;
      const { expectAffected } = step;
      if (expectAffected !== undefined && now !== expectAffected) {
        await exclusive.command('rollback');
        throw new StatementFailed(errors.unexpectedAffected(now, expectAffected, index), 'idle');
      }
    }
    if (maxAffected !== null && affected > maxAffected) {
      await exclusive.command('rollback');
      throw new StatementFailed(errors.tooManyAffected(affected, maxAffected), 'idle');
    }
    await exclusive.commit(closing(measure, own), readOnly);
    exclusive.learn(profiles);
    return { held, parts };
  });
}

function isInsert({ statement: { writes, changes } }: StatementProfile): boolean {
  return writes && !changes;
}

function throwAt(error: unknown, index: number): never {
  throw atIndex(error, index);
}
