// The session in which the statements of a dump run: a login as a role of the new project, so that nothing in a dump can
// become more than that role by SET or RESET. Its deadline is kept here: a dump sets statement_timeout itself.

import { errors } from '../../errors/errors.ts';
import { sql } from '../../postgres/sql.ts';
import { ask, type TextRow } from '../../postgres/wire/ask.ts';
import { CopyIn } from '../../postgres/wire/copy-in.ts';
import type { ServerError } from '../../postgres/wire/server-error.ts';
import { Session, silent } from '../../postgres/wire/session.ts';
import { startupOptions } from '../../postgres/wire/startup-options.ts';
import { loginOf, type ProjectLogin } from '../../servers/databases/login.ts';
import type { Server } from '../../servers/server.ts';

export type Outcome = Readonly<{ error: ServerError | null; tag: string }>;

export type SessionLimits = Readonly<{
  /** For a statement, and for a COPY that takes no more rows. */
  statementMs: number;
  /** After each statement, and while a COPY takes rows. */
  onStep?: () => void;
}>;

/** As pg_restore sets them. Commits need not wait for the disk: an import that breaks off leaves nothing. */
const settings = {
  check_function_bodies: 'false',
  client_min_messages: 'error',
  row_security: 'off',
  synchronous_commit: 'off',
  xmloption: 'content',
  statement_timeout: '0',
  lock_timeout: '0',
  client_connection_check_interval: '1000',
  DateStyle: 'ISO, MDY',
  TimeZone: 'UTC',
};
const savepoint = 'savepoint rowhouse_import';
/** Released, too: one that stays for each statement slows down the whole transaction. */
const undo = [`rollback to ${savepoint}`, `release ${savepoint}`];
/** They begin and end transactions, or must come first in one. */
const isOfTransaction =
  /^(?:begin|start|commit|end|rollback|abort|savepoint|release|prepare\s+transaction|set\s+(?:local\s+|session\s+)?transaction)\b/i;
const terminateAfterMs = 2_000;
const destroyAfterMs = 5_000;

export class ImportSession {
  private readonly session: Session;
  private readonly server: Server;
  private readonly limits: SessionLimits;
  private readonly signal: AbortSignal;
  private isTooSlow = false;
  private status: 'idle' | 'transaction' | 'failed' = 'idle';

  private constructor(session: Session, server: Server, limits: SessionLimits, signal: AbortSignal) {
    this.session = session;
    this.server = server;
    this.limits = limits;
    this.signal = signal;
  }

  static async open(
    server: Server,
    login: ProjectLogin,
    limits: SessionLimits,
    signal: AbortSignal,
  ): Promise<ImportSession> {
    signal.throwIfAborted();
    const session = await Session.open(loginOf(server, login), {
      application_name: 'rowhouse query',
      options: startupOptions(settings),
    }).catch((error) => {
      throw errors.unavailable(error);
    });
    return new ImportSession(session, server, limits, signal);
  }

  /** Inside of a transaction that the dump began. */
  get isInTransaction(): boolean {
    return this.status !== 'idle';
  }

  /** Rejects when the import has to end: it was cancelled, took too long, or the session is lost. */
  async run(text: string, parameters: readonly string[] = []): Promise<Outcome> {
    if (this.isInTransaction && parameters.length === 0 && !isOfTransaction.test(text))
      return this.runInTransaction(text);
    const outcome = await this.guarded(() => this.exchange([text], parameters));
    // As after an error in psql: what follows is tried by itself.
    if (this.status === 'failed') await this.guarded(() => this.exchange(['rollback'], []));
    return outcome;
  }

  /** A statement that fails must not take with it what its transaction has done. */
  private async runInTransaction(text: string): Promise<Outcome> {
    const tags: string[] = [];
    const texts = [savepoint, text, `release ${savepoint}`];
    const { error } = await this.guarded(() => this.exchange(texts, [], (tag) => tags.push(tag)));
    if (this.status === 'failed') await this.guarded(() => this.exchange(undo, []));
    return { error, tag: error ? '' : (tags[1] ?? '') };
  }

  /** Several in one transaction and one round trip: all or none. Gives their tags, or null if one has failed. */
  async runTogether(texts: readonly string[]): Promise<string[] | null> {
    const tags: string[] = [];
    const { error } = await this.guarded(() => this.exchange(texts, [], (tag) => tags.push(tag)));
    return error ? null : tags;
  }

  /** The rows of a statement of our own, as text. Rejects if PostgreSQL refuses it. */
  async read(text: string, parameters: readonly string[]): Promise<TextRow[]> {
    const { statementMs } = this.limits;
    return this.guarded(() =>
      ask(this.session, text, parameters, {
        timeoutMs: statementMs,
        terminate: (session) => session.destroy(),
      }),
    );
  }

  /** COPY … FROM STDIN. */
  async copy(text: string, rows: AsyncIterable<Buffer>): Promise<Outcome> {
    const isInside = this.isInTransaction;
    if (isInside) await this.guarded(() => this.exchange([savepoint], []));
    const outcome = await this.guarded(async (touch) => {
      const copying = new CopyIn({
        session: this.session,
        before: [],
        text,
        after: { count: 0, write: () => {} },
        source: rows,
        clock: { pause: touch, resume: touch },
      });
      const end = await copying.run();
      if (copying.sourceFailure) throw copying.sourceFailure.error;
      if (end instanceof Error) throw end;
      this.status = end;
      return { error: copying.failure, tag: copying.tag };
    });
    if (this.status === 'failed') await this.guarded(() => this.exchange(isInside ? undo : ['rollback'], []));
    else if (isInside) await this.guarded(() => this.exchange([`release ${savepoint}`], []));
    return outcome;
  }

  close(): void {
    this.session.close();
  }

  private exchange(
    texts: readonly string[],
    parameters: readonly string[],
    onTag: (tag: string) => void = () => {},
  ): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      let error: ServerError | null = null;
      let tag = '';
      const { out } = this.session;
      for (const text of texts) out.parse('', text).bind('', parameters).execute(0);
      out.sync();
      this.session.send({
        ...silent,
        // The rows of a statement are not needed, however large.
        rowPart: () => {},
        complete: (found) => {
          tag = found ?? '';
          onTag(tag);
        },
        error: (found) => {
          error ??= found;
        },
        copy: () => this.session.destroy(),
        ready: (status) => {
          this.status = status;
          resolve({ error, tag });
        },
        lost: reject,
      });
    });
  }

  /** Cancels at the deadline or when the import is to end, then terminates, then cuts the connection. */
  private async guarded<T>(act: (touch: () => void) => Promise<T>): Promise<T> {
    this.signal.throwIfAborted();
    const timers: NodeJS.Timeout[] = [];
    const stop = () => {
      void this.session.cancel();
      timers.push(setTimeout(() => void this.terminate(), terminateAfterMs));
      timers.push(setTimeout(() => this.session.destroy(), destroyAfterMs));
    };
    const deadline = setTimeout(() => {
      this.isTooSlow = true;
      stop();
    }, this.limits.statementMs);
    this.signal.addEventListener('abort', stop, { once: true });
    try {
      const touch = () => {
        deadline.refresh();
        this.limits.onStep?.();
      };
      return await act(touch).finally(() => {
        this.limits.onStep?.();
        this.explainEnd();
      });
    } catch (error) {
      this.session.destroy();
      throw error;
    } finally {
      clearTimeout(deadline);
      for (const timer of timers) clearTimeout(timer);
      this.signal.removeEventListener('abort', stop);
    }
  }

  /** A statement that was stopped must not be taken for one that failed. */
  private explainEnd(): void {
    this.signal.throwIfAborted();
    if (this.isTooSlow) throw errors.importTooSlow(this.limits.statementMs);
  }

  private async terminate(): Promise<void> {
    const { pid } = this.session;
    await this.server.maintenance.query(sql`select pg_terminate_backend(${pid}::int)`).catch(() => {});
  }
}
