// A batch of short, plain statements is one write to PostgreSQL and one implicit transaction (exchange/sequence.ts), instead of a
// round trip for BEGIN, for each statement and for COMMIT.

import { errors, type RowhouseError } from '../errors/errors.ts';
import type { Measure } from '../quotas/size-check.ts';
import type { ProjectLogin } from '../servers/databases/login.ts';
import { closing } from './admission.ts';
import { isLargeInput } from './exchange/answer-writer.ts';
import { type EncodedInput, encode } from './exchange/encoded-input.ts';
import { Exchange, type ExchangeOptions } from './exchange/exchange.ts';
import { type Frame, noFrame, sharedFrame } from './exchange/frame.ts';
import { HeldAnswer } from './exchange/held-answer.ts';
import type { Sink } from './exchange/reader.ts';
import { Sequence } from './exchange/sequence.ts';
import { needsTypes } from './json/parameters.ts';
import type { QueryDeps } from './run.ts';
import { passGate, type SessionTerms, withSession } from './sessions/exclusive.ts';
import { isPlain, type StatementProfile } from './sessions/statement-profiles.ts';
import { canPipeline, sharedTimeoutMs } from './sharing/pipelines.ts';
import { atIndex, type Parts, type Step } from './steps.ts';

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
export async function inOneWrite(
  deps: QueryDeps,
  project: ProjectLogin,
  terms: SessionTerms,
  steps: readonly Step[],
  profiles: readonly StatementProfile[],
  measure: Measure | null,
): Promise<Parts | null> {
  const inputs = steps.map(encodeStep);
  if (canPipeline(profiles) && terms.timeoutMs >= sharedTimeoutMs) {
    const found = await inPipeline(deps, project, terms, { steps, inputs, profiles });
    if (found !== 'elsewhere') return found;
  }
  const use = profiles.every(({ statement }) => statement.isRead) ? 'read' : 'plain';
  return withSession(deps, project, { ...terms, use }, async (exclusive) => {
    const answers = new Answers(project);
    exclusive.onFailure = () => answers.release();
    const making = { steps, inputs, project };
    const exchanges = answers.exchangesOf(making, (...parts) => exclusive.exchange(...parts));
    // PostgreSQL commits at the end of what is written together.
    const last = closing(measure, null).slice(0, -1);
    const hasRun = await exclusive.runTogether(exchanges, profiles, { last, onDone: answers.onDone });
    return hasRun ? answers.close(use === 'read') : null;
  });
}

type Encoded = Readonly<{ steps: readonly Step[]; inputs: readonly EncodedInput[] }>;

/** Before anything is written: a value that cannot be sent must not leave some of the statements without their end. */
function encodeStep({ input }: Step, index: number): EncodedInput {
  try {
    return encode(input, null);
  } catch (error) {
    throw atIndex(error, index);
  }
}

/** As one read among others. */
async function inPipeline(
  deps: QueryDeps,
  project: ProjectLogin,
  terms: SessionTerms,
  { steps, inputs, profiles }: Encoded & { profiles: readonly StatementProfile[] },
): Promise<Parts | null | 'elsewhere'> {
  const { sessions, pipelines } = deps;
  if (sessions.gate.isClosed(project.id)) await passGate(sessions, project, terms);
  const pipeline = await pipelines.take(project, profiles);
  if (!pipeline) return 'elsewhere';
  const { session } = pipeline;
  const answers = new Answers(project);
  const aside: ExchangeOptions['aside'] = (look) => sessions.aside(project, look);
  const exchanges = answers.exchangesOf(
    { steps, inputs, project },
    (step, sink, frame) => new Exchange({ ...step, session, sink, frame, aside }),
  );
  const sequence = new Sequence(session, exchanges, [], answers.onDone);
  try {
    if (!(await pipeline.run(sequence, { ...terms, profiles }))) return 'elsewhere';
    return sequence.hasRun ? answers.close(true) : null;
  } catch (error) {
    answers.release();
    throw error;
  }
}

type MakeExchange = (step: Step, sink: Sink, frame: Frame) => Exchange;

/** The answers to all steps: they are held until the commit. */
class Answers {
  private readonly held: HeldAnswer;
  private readonly parts: Buffer[][] = [];
  private readonly sinks = new Map<Exchange, HeldAnswer>();

  constructor(project: ProjectLogin) {
    this.held = new HeldAnswer(project);
  }

  exchangesOf(
    { steps, inputs, project: { actingUser } }: Encoded & { project: ProjectLogin },
    make: MakeExchange,
  ): Exchange[] {
    return steps.map((step, index) => {
      const sink = new HeldAnswer(null);
      const exchange = make(step, sink, index === 0 ? sharedFrame(actingUser) : noFrame);
      exchange.useInput(inputs[index] as EncodedInput);
      this.sinks.set(exchange, sink);
      return exchange;
    });
  }

  /** Returns the size of the answer. */
  readonly onDone = (exchange: Exchange): number => {
    const part = [...(this.sinks.get(exchange)?.takeFrom(0) ?? []), exchange.close()];
    this.parts.push(part);
    return part.reduce((sum, { length }) => sum + length, 0);
  };

  close(isRead: boolean): Parts {
    hold(this.held, this.parts, isRead);
    return { held: this.held, parts: this.parts };
  }

  release(): void {
    this.held.release();
  }
}

/** Usually it is little. But PostgreSQL can have answered everything before the cancel for a large answer reached it. */
function hold(held: HeldAnswer, parts: readonly Buffer[][], isRead: boolean): void {
  try {
    for (const piece of parts.flat()) held.write(piece);
  } catch (error) {
    throw isRead ? error : errors.rowsNotShown(error as RowhouseError);
  }
}
