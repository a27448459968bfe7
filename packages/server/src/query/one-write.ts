// A batch of short, plain statements is one write to PostgreSQL and one implicit transaction (exchange/sequence.ts), instead of a
// round trip for BEGIN, for each statement and for COMMIT.
import { errors, type RowhouseError } from '../errors/errors.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import { closing, type Measure } from './admission.ts';
import { isLargeInput } from './exchange/answer-writer.ts';
import type { Exchange } from './exchange/exchange.ts';
import { noFrame, sharedFrame } from './exchange/frame.ts';
import { HeldAnswer } from './exchange/held-answer.ts';
import { needsTypes } from './json/parameters.ts';
import type { QueryDeps } from './run.ts';
import { type SessionTerms, withSession } from './sessions/exclusive.ts';
import { isPlain, type StatementProfile } from './sessions/statement-profiles.ts';
import type { Parts, Step } from './steps.ts';

/** Statements that usually take longer run one by one: their answers are large, or others wait for what they lock. */
const shortMs = 40;
const maxSteps = 100;
const maxTextLength = 64 * 1024;

/** `begin`: how the transaction is to begin. */
export function canBeOneWrite(
  steps: readonly Step[],
  profiles: readonly StatementProfile[],
  { begin, maxAffected }: { begin: string; maxAffected: number | null },
): boolean {
  if (maxAffected !== null || steps.length > maxSteps) return false;
  const isRead = profiles.every(({ statement }) => statement.isRead);
  if (begin !== 'begin' && !(begin === 'begin read only' && isRead)) return false;
  let length = 0;
  for (const { input } of steps) length += input.query.length;
  return (
    length <= maxTextLength &&
    steps.every(
      ({ statement, input, expectAffected }) =>
        expectAffected === undefined &&
        statement.preparable &&
        !statement.canCommit &&
        !needsTypes(input.params) &&
        !isLargeInput(input),
    ) &&
    profiles.every((profile) => isPlain(profile) && profile.usualMs < shortMs)
  );
}

/** null: nothing of it has happened, and it has to run one by one. */
export function inOneWrite(
  deps: QueryDeps,
  project: ProjectLogin,
  terms: SessionTerms,
  steps: readonly Step[],
  profiles: readonly StatementProfile[],
  measure: Measure | null,
): Promise<Parts | null> {
  const use = profiles.every(({ statement }) => statement.isRead) ? 'read' : 'plain';
  return withSession(deps, project, { ...terms, use }, async (exclusive) => {
    const held = new HeldAnswer(project);
    exclusive.onFailure = () => held.release();
    const answers = new Map<Exchange, HeldAnswer>();
    const exchanges = steps.map((step, index) => {
      const answer = new HeldAnswer(null);
      const frame = index === 0 ? sharedFrame(project.actingUser) : noFrame;
      const exchange = exclusive.exchange(step, answer, frame);
      answers.set(exchange, answer);
      return exchange;
    });
    const parts: Buffer[][] = [];
    const onDone = (exchange: Exchange) => {
      const part = [...(answers.get(exchange)?.takeFrom(0) ?? []), exchange.close()];
      parts.push(part);
      return part.reduce((sum, { length }) => sum + length, 0);
    };
    // PostgreSQL commits at the end of what is written together.
    const last = closing(measure, null).slice(0, -1);
    const hasRun = await exclusive.runTogether(exchanges, profiles, { last, onDone });
    if (!hasRun) return null;
    hold(held, parts, use === 'read');
    return { held, parts };
  });
}

/** Usually it is little. But PostgreSQL can have answered everything before the cancel for a large answer reached it. */
function hold(held: HeldAnswer, parts: readonly Buffer[][], isRead: boolean): void {
  try {
    for (const piece of parts.flat()) held.write(piece);
  } catch (error) {
    throw isRead ? error : errors.rowsNotShown(error as RowhouseError);
  }
}
