// Runs the entries of a dump of either format, as allowed-contents.ts and rewrites.ts decide, and keeps the report.
import { errors } from '../../errors/errors.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { isRaised, type ServerError } from '../../postgres/wire/server-error.ts';
import { findWords } from '../read/words.ts';
import { judge } from './allowed-contents.ts';
import { CopyRows } from './copy-rows.ts';
import { catchesErrors } from './do-block.ts';
import type { ImportSession, Outcome } from './import-session.ts';
import type { Entry, Origin } from './origin.ts';
import { isNeedlessExtension } from './platforms.ts';
import { RemovedRows } from './removed-rows.ts';
import { labelOf, type Reporting, type Weight } from './report.ts';
import { rewrite } from './rewrites.ts';
import { Schemas } from './schemas.ts';
import { SetAside } from './set-aside.ts';
import { Triggers } from './triggers.ts';

/** `listedRows`: as the reader of the dump counted them. */
type Statement = { text: string; entry: Entry | null; listedRows: number | null };

type Options = { session: ImportSession; origin: Origin; role: string; report: Reporting };

export class Runner {
  readonly report: Reporting;
  readonly session: ImportSession;
  private readonly origin: Origin;
  private readonly role: string;
  private readonly otherOwners = new Set<string>();
  private readonly failedTables = new Set<string>();
  /** INSERTs of a dump with --inserts: one round trip for each would be slow. */
  private readonly waiting: Statement[] = [];
  private waitingChars = 0;
  private readonly setAside: SetAside;
  private readonly triggers: Triggers;
  private readonly schemas: Schemas;
  private readonly removedRows: RemovedRows;
  private readonly failed: { text: string; entry: Entry | null; reason: string }[] = [];
  private failedChars = 0;

  constructor({ session, origin, role, report }: Options) {
    this.session = session;
    this.origin = origin;
    this.role = role;
    this.report = report;
    this.setAside = new SetAside(session, report);
    this.triggers = new Triggers(session);
    this.schemas = new Schemas(session, origin);
    this.removedRows = new RemovedRows(session);
  }

  /** Before the first statement. */
  async begin(): Promise<void> {
    await this.schemas.begin();
    await this.removedRows.begin();
  }

  wouldRun(entry: Entry): boolean {
    return judge(entry, this.origin).run;
  }

  /** Whether its statements are to run. If not, the report says why. `isEmpty`: it has no rows, so none are lost. */
  admits(entry: Entry, text: string | null = null, isEmpty = false): boolean {
    const judgement = judge(entry, this.origin);
    if (judgement.run) {
      this.noteOwner(entry.owner);
      return true;
    }
    if (judgement.reason === null || isEmpty) return false;
    if (judgement.group) this.report.skipInGroup(judgement.group, judgement.reason, judgement.weight);
    else this.skip(text ?? labelOf(entry), entry, judgement.reason, judgement.weight);
    return false;
  }

  /** Nothing is lost if a dump has one owner: the project's role takes its place. Others get a line each. */
  private noteOwner(owner: string | null): void {
    if (owner === null || owner === this.origin.mainOwner || isProjectRole.test(owner)) return;
    if (this.otherOwners.has(owner) || this.otherOwners.size >= maxOtherOwners) return;
    this.otherOwners.add(owner);
    this.report.skip(`owner ${owner}`, "Everything belongs to the new project's role.", 'needless');
  }

  async statement(text: string, entry: Entry | null, listedRows: number | null = null): Promise<void> {
    if (isRow(text) && !this.session.isInTransaction) {
      this.waiting.push({ text, entry, listedRows });
      this.waitingChars += text.length;
      if (this.waiting.length >= maxWaiting || this.waitingChars > maxWaitingChars) await this.flush();
      return;
    }
    await this.flush();
    await this.single({ text, entry, listedRows });
  }

  /** Runs the INSERTs that wait: together, or one by one to find the one that fails. */
  async flush(): Promise<void> {
    const waiting = this.waiting.splice(0);
    this.waitingChars = 0;
    if (waiting.length === 0) return;
    const tags = await this.session.runTogether(waiting.map(({ text }) => text));
    for (const [index, statement] of waiting.entries()) {
      if (tags) this.countRows(tags[index] ?? '', statement);
      else await this.single(statement);
    }
  }

  /** What an INSERT lists has to be there. One that takes its rows from a query has to store something. */
  private countRows(tag: string, { text, entry, listedRows }: Statement): void {
    if (!tag.startsWith('INSERT 0 ')) return;
    const stored = Number(tag.slice(9));
    this.report.rows += stored;
    this.compareRows(text, entry, stored, listedRows ?? 1);
  }

  /** `held`: by the dump; null: not known, which is not known to be good either. */
  private compareRows(text: string, entry: Entry | null, stored: number, held: number | null): void {
    if (held !== null && stored >= held) return;
    const group = `rows of ${entry?.kind === 'TABLE DATA' ? tableOf(entry) : nameOf(text, entry)}`;
    if (held === null) this.report.skipInGroup(group, 'How many rows the dump holds is not known.');
    else this.report.skipInGroup(group, keptOut, 'lost', held - stored);
  }

  private async single(statement: Statement): Promise<void> {
    const { text, entry } = statement;
    const rewritten = rewrite(text, this.origin, this.role);
    if ('skip' in rewritten) {
      this.noteOwner(rewritten.owner ?? null);
      if (rewritten.skip !== null) this.skip(text, entry, rewritten.skip, rewritten.weight);
      return;
    }
    if (await this.triggers.take(text)) return;
    const first = await this.run(rewritten.run);
    const outcome = first.error ? await this.runDifferently(rewritten.run, entry, first) : first;
    if (outcome.error) this.takeError(text, entry, outcome.error);
    else this.takeDone(outcome.tag, statement);
  }

  private takeDone(tag: string, statement: Statement): void {
    const { text, entry } = statement;
    this.removedRows.note(tag);
    if (tag === 'CREATE TABLE') this.report.tables++;
    else if (tag === 'ROLLBACK')
      this.report.skip(text, 'The dump undoes what came before in its transaction.');
    else if (tag === 'DO' && catchesErrors(text)) this.skip(text, entry, caught);
    else this.countRows(tag, statement);
  }

  /** With what a statement lacks: its schema, or an order in which its foreign keys hold. */
  private async runDifferently(text: string, entry: Entry | null, outcome: Outcome): Promise<Outcome> {
    const { error } = outcome;
    if (!error || isRaised(error)) return outcome;
    if (error.state === sqlstate.undefinedSchema && (await this.schemas.make(text, entry)))
      return this.run(text);
    const isReference = error.state === sqlstate.foreignKeyViolation && /^insert\b/i.test(text);
    if (isReference && entry && (await this.setAside.withoutReferences(entry))) return this.run(text);
    return outcome;
  }

  /**
   * With row_security off, as in all of a dump, a query fails instead of leaving rows out. A materialised view over tables
   * that force row security on their owner is filled as its owner would fill it.
   */
  private async run(text: string) {
    const isRefresh = /^refresh\s+materialized\b/i.test(text);
    if (isRefresh) await this.session.run('set row_security = on');
    const outcome = await this.session.run(text);
    if (isRefresh) await this.session.run('set row_security = off');
    return outcome;
  }

  async copy(text: string, entry: Entry | null, rows: () => AsyncIterable<Buffer>): Promise<void> {
    await this.flush();
    if (entry && this.failedTables.has(keyOf(entry))) {
      this.skip(text, entry, 'The table was not created.');
      return;
    }
    let sent = new CopyRows(text);
    const { error, tag } = await this.copyRows(text, entry, () => {
      sent = new CopyRows(text);
      return sent.counted(rows());
    });
    if (error) return this.takeDataError(text, entry, error);
    const stored = Number(/^COPY (\d+)$/.exec(tag)?.[1] ?? 0);
    this.report.rows += stored;
    this.compareRows(text, entry, stored, sent.held);
  }

  /** If the table rejects them: again, without its check constraints. */
  private async copyRows(
    text: string,
    entry: Entry | null,
    rows: () => AsyncIterable<Buffer>,
  ): Promise<Outcome> {
    const wasInTransaction = this.session.isInTransaction;
    const outcome = await this.session.copy(text, rows());
    if (!outcome.error || !entry) return outcome;
    if (outcome.error.state === sqlstate.foreignKeyViolation && !isRaised(outcome.error))
      return (await this.setAside.withoutReferences(entry)) ? this.session.copy(text, rows()) : outcome;
    if (wasInTransaction) return outcome;
    return (await this.setAside.whileWithout(entry, () => this.session.copy(text, rows()))) ?? outcome;
  }

  /**
   * When everything else is there, with the search path of the project: a dump has none, so functions that name tables without
   * their schemas fail in it. A partition is not attached if its check constraint calls such a function.
   */
  async tryAgain(): Promise<void> {
    await this.session.run('reset search_path');
    await this.triggers.enable();
    // First: a partition whose constraint is not valid cannot be attached.
    await this.setAside.validate();
    for (const { text, entry, reason } of this.failed.splice(0)) {
      const rewritten = rewrite(text, this.origin, this.role);
      if ('skip' in rewritten) continue;
      const { error, tag } = await this.run(rewritten.run);
      if (!error) this.takeDone(tag, { text, entry, listedRows: null });
      else if (error.state === sqlstate.foreignKeyViolation && !isRaised(error))
        await this.keepForNewRows(rewritten.run, entry, error);
      else this.skip(text, entry, reason);
    }
  }

  /** After everything else. */
  reportRemovedRows(): Promise<void> {
    return this.removedRows.report(this.report);
  }

  /** A foreign key that rows of the dump violate. */
  private async keepForNewRows(text: string, entry: Entry | null, error: ServerError): Promise<void> {
    const reason = this.report.explainReference(error);
    const late = await this.session.run(text.replace(/\s*;?\s*$/, ' not valid;'));
    this.skip(text, entry, late.error ? reason : `It is here, but NOT VALID. ${reason}`);
  }

  skip(text: string, entry: Entry | null, reason: string, weight?: Weight): void {
    this.report.skip(nameOf(text, entry), reason, weight);
  }

  private takeError(text: string, entry: Entry | null, error: ServerError): void {
    if (/^insert\b/i.test(text)) return this.takeDataError(text, entry, error);
    if (isOfNoLoss(text, error)) return;
    if (isNeedlessExtension(text)) return this.skip(text, entry, error.message, 'needless');
    // Without it, rows would be shown that the dump hid.
    if (isRestrictive(text))
      throw errors.importFailed(`${nameOf(text, entry).slice(0, 300)}: ${error.message}`);
    if (/^create\s+(?:unlogged\s+|foreign\s+)?table\b/i.test(text) && entry)
      this.failedTables.add(keyOf(entry));
    this.tryLater(text, entry, error.message);
  }

  private tryLater(text: string, entry: Entry | null, reason: string): void {
    this.failedChars += text.length;
    const isTable = /^create\s+(?:unlogged\s+|foreign\s+)?table\b/i.test(text);
    if (isTable || this.failed.length >= maxFailed || this.failedChars > maxFailedChars)
      this.skip(text, entry, reason);
    else this.failed.push({ text, entry, reason });
  }

  /** Rows of a table that is not there are reported. Rows that a table rejects would be lost silently. */
  private takeDataError(text: string, entry: Entry | null, error: ServerError): void {
    const isMissing = error.state === sqlstate.undefinedTable || error.state === sqlstate.undefinedSchema;
    if (isMissing && !isRaised(error)) {
      // A dump with INSERTs can have one for each row.
      if (entry && isRow(text)) this.report.skipInGroup(labelOf(entry), error.message);
      else this.skip(text, entry, error.message);
      return;
    }
    const { foreignKeyViolation } = sqlstate;
    const reason = error.state === foreignKeyViolation ? this.report.explainReference(error) : error.message;
    throw errors.importFailed(`${nameOf(text, entry).slice(0, 300)}: ${reason}`);
  }
}

const keptOut =
  'The table took fewer rows than the dump holds: a trigger, a rule or a condition of the dump kept them out.';
const caught = 'It catches errors itself, so nobody knows what it left out.';
const maxFailed = 1_000;
const maxFailedChars = 4 * 1024 * 1024;
const maxWaiting = 200;
const maxOtherOwners = 100;
/** The roles of a project, whose database has no other owner, and the role that stands for the owner of the database. */
const isProjectRole = /^(?:p_[a-z0-9]{16}(?:_auth)?|pg_database_owner)$/;
const maxWaitingChars = 256 * 1024;

function isRow(text: string): boolean {
  return text.length < maxWaitingChars && /^insert\b/i.test(text);
}

/** Without pg_dump's comment, the statement itself says most, except for one that has rows. */
function nameOf(text: string, entry: Entry | null): string {
  return entry && (!entry.isDerived || hasRows.test(text)) ? labelOf(entry) : text;
}

const hasRows = /^insert\b|^copy\b[\s\S]*\bfrom\s+stdin\b/i;

const tableOf = ({ schema, name }: Entry) => (schema === null ? name : `${schema}.${name}`);

function keyOf({ schema, name }: Entry): string {
  return `${schema}.${name}`;
}

/** The word can stand between the table and the rest only. */
function isRestrictive(text: string): boolean {
  if (!/^create\s+policy\b/i.test(text)) return false;
  const words = findWords(text, maxPolicyChars);
  return words.some(
    ({ word, isQuoted }, at) => word === 'restrictive' && !isQuoted && words[at - 1]?.word === 'as',
  );
}
const maxPolicyChars = 64 * 1024;

const duplicateSchema = '42P06';

function isOfNoLoss(text: string, error: ServerError): boolean {
  if (isRaised(error)) return false;
  // The public schema, and what the dump's own CREATE EXTENSION has made.
  if (/^create\s+schema\b/i.test(text)) return error.state === duplicateSchema;
  // Settings of other versions of PostgreSQL, or of an operator. They end with the session.
  if (/^(?:set|reset)\b/i.test(text)) return true;
  return /^comment\s+on\s+extension\b/i.test(text);
}
