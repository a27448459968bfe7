// Parses statements with PostgreSQL's own parser before anything is sent: three threads for texts of different sizes, a
// queue that is fair to accounts and projects, and a cache of the results.
import { Worker } from 'node:worker_threads';
import { errors } from '../../errors/errors.ts';
import { compiledFile } from '../../lib/compiled-file.ts';
import { openInFlight } from '../../lib/in-flight.ts';
import { MemoryBudget } from '../../lib/memory-budget.ts';
import { FairQueue } from './fair-queue.ts';
import { judgeOversizedText } from './oversized-text.ts';
import type { Statement, Verdict } from './statement.ts';
import { StatementCache } from './statement-cache.ts';

/** Whose project it is decides whose turn it is. */
type ParsedFor = Readonly<{ id: string; accountId?: string | null }>;

export type Parser = {
  /** The cached statement, if the text was parsed before. */
  recall(projectId: string, text: string): Statement | undefined;
  /** Throws errors.overloaded if too many texts of the project are already waiting. */
  parse(project: ParsedFor, text: string): Promise<Statement>;
  stop(): Promise<void>;
};

/** Larger texts are not parsed: PostgreSQL accepts only one statement anyway, and the session gets a full reset. */
const maxParsedBytes = 1024 * 1024;
const maxCachedLength = 8192;
const cacheBytes = 40 * 1024 * 1024;
/**
 * Each size class has its own thread, so that no text waits for a far larger one. The largest short text takes about
 * 5 ms, the largest medium text 100 ms, and a text of 1 MB two seconds.
 */
const [shortText, mediumText] = [2_048, 65_536];
/** For one project, in characters. A short text counts as `minWaiting`: it takes a turn, though little memory. */
const maxWaiting = 8 * 1024 * 1024;
const minWaiting = 8_192;
const parseTimeoutMs = 5_000;
/** A busy machine takes longer to start the thread than to parse any text. */
const loadTimeoutMs = 60_000;

const unparsed: Statement = {
  effect: 'anything',
  preparable: false,
  writes: true,
  isRead: false,
  reached: null,
  because: 'statement',
  isProven: false,
  lazyText: null,
  isDelete: false,
  isInsert: false,
  insert: null,
  rowKey: null,
  changes: true,
  canShrink: false,
  isVacuum: false,
  canCommit: true,
  isParsed: false,
};

export function startParser(): Parser {
  const cache = new StatementCache(cacheBytes);
  const threads = [startThread(), startThread(), startThread()] as const;
  // With two short texts at a time, the thread has work while the first answer is in transit.
  const short = new FairQueue(threads[0].ask, 2);
  const [medium, large] = [new FairQueue(threads[1].ask, 1), new FairQueue(threads[2].ask, 1)];
  // No total limit: with one, a few projects could cause all others to be refused.
  const waiting = new MemoryBudget({ perHolder: maxWaiting, total: Number.POSITIVE_INFINITY });
  const inFlight = openInFlight<Verdict>();

  const ask = async ({ id: projectId, accountId }: ParsedFor, text: string): Promise<Verdict> => {
    const size = Math.max(text.length, minWaiting);
    if (!waiting.take(projectId, size)) {
      throw errors.overloaded('Too many new statements of this project are waiting to be parsed.', 1);
    }
    const queue = text.length <= shortText ? short : text.length <= mediumText ? medium : large;
    try {
      return await queue.add(projectId, text, accountId ?? projectId);
    } finally {
      waiting.take(projectId, -size);
    }
  };

  /** If many clients send the same new text at the same moment, it is parsed once. */
  const askOnce = (project: ParsedFor, text: string): Promise<Verdict> =>
    inFlight(`${project.id} ${text}`, () => ask(project, text));

  return {
    recall: (projectId, text) => cache.get(projectId, text),
    parse: async (project, text) => {
      const { id: projectId } = project;
      const known = cache.get(projectId, text);
      if (known) return known;
      if (text.includes('\0')) {
        throw errors.invalidRequest([
          { path: 'query', problem: 'must not contain a NUL character, which PostgreSQL does not support' },
        ]);
      }
      if (text.length > maxParsedBytes) {
        const found = judgeOversizedText(text);
        if (found.is === 'refused') toStatement(await ask(project, found.likeText));
        if (found.is === 'allowed') return unparsed;
        throw found.is === 'empty' ? noStatement() : tooLarge();
      }
      if (text.length > maxCachedLength) return toStatement(await ask(project, text));
      const verdict = await askOnce(project, text);
      const meanwhile = cache.get(projectId, text);
      if (meanwhile) return meanwhile;
      const statement = toStatement(verdict);
      cache.add(projectId, text, statement);
      return statement;
    },
    stop: async () => {
      await Promise.all(threads.map((thread) => thread.stop()));
    },
  };
}

/** `loaded` comes first. */
type ParserMessage = 'loaded' | { id: number; verdict: Verdict };
type Thread = { ask(text: string): Promise<Verdict>; stop(): Promise<void> };

function startThread(): Thread {
  let worker: Worker | null = null;
  let next = 0;
  /** In the order of parsing. The first one is being parsed now. */
  const waiting = new Map<number, { text: string; resolve: (verdict: Verdict) => void }>();
  let timer: NodeJS.Timeout | undefined;
  /** Whether the thread has loaded the parser. */
  let isLoaded = false;

  const settle = (id: number, verdict: Verdict) => {
    const asked = waiting.get(id);
    if (!asked) return;
    waiting.delete(id);
    restartTimer();
    asked.resolve(verdict);
  };

  const restartTimer = () => {
    clearTimeout(timer);
    const limitMs = isLoaded ? parseTimeoutMs : loadTimeoutMs;
    timer = waiting.size > 0 ? setTimeout(giveUpFirst, limitMs) : undefined;
  };

  /** The first text took too long, or crashed the thread. */
  const giveUpFirst = () => {
    const [first] = waiting.keys();
    if (first !== undefined) settle(first, { kind: 'broken' });
    recycle();
  };

  /** A parser that ran out of stack is corrupt. A new one takes over the texts that the old one has not parsed. */
  const recycle = () => {
    const old = worker;
    worker = null;
    void old?.terminate();
    for (const [id, { text }] of waiting) getWorker().postMessage({ id, text });
  };

  const getWorker = (): Worker => {
    if (worker) return worker;
    const started = new Worker(compiledFile('parser-worker.js', import.meta.url), {
      // The result of a text is garbage at once: a larger young generation would only be filled before it is collected.
      resourceLimits: { stackSizeMb: 8, maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 6 },
    });
    started.unref();
    started.on('message', (message: ParserMessage) => {
      if (worker !== started) return;
      if (message === 'loaded') {
        isLoaded = true;
        restartTimer();
        return;
      }
      const { id, verdict } = message;
      settle(id, verdict);
      if (verdict.kind === 'broken') recycle();
    });
    started.on('error', () => worker === started && giveUpFirst());
    worker = started;
    isLoaded = false;
    restartTimer();
    return started;
  };

  return {
    ask: (text) =>
      new Promise((resolve) => {
        const id = ++next;
        waiting.set(id, { text, resolve });
        if (waiting.size === 1) restartTimer();
        getWorker().postMessage({ id, text });
      }),
    stop: async () => {
      clearTimeout(timer);
      await worker?.terminate();
    },
  };
}

function toStatement(verdict: Verdict): Statement {
  switch (verdict.kind) {
    case 'statement':
      return {
        effect: verdict.effect,
        preparable: verdict.preparable,
        writes: verdict.writes,
        isRead: verdict.isRead,
        reached: verdict.reached,
        because: verdict.reached === null ? 'statement' : null,
        isProven: false,
        lazyText: verdict.lazyText,
        isDelete: verdict.isDelete,
        isInsert: verdict.isInsert,
        insert: verdict.insert,
        rowKey: verdict.rowKey,
        changes: verdict.changes,
        canShrink: verdict.canShrink,
        isVacuum: verdict.isVacuum,
        canCommit: verdict.canCommit,
        isParsed: true,
      };
    case 'invalid':
      // PostgreSQL has the best error message for it.
      return { ...unparsed, isParsed: true };
    case 'empty':
      throw noStatement();
    case 'several':
      throw errors.multipleStatements(verdict.count);
    case 'refused':
      throw errors.statementNotAllowed(verdict.what, verdict.hint);
    case 'broken':
      throw errors.statementNotAllowed(
        'This statement is nested too deeply to be parsed.',
        'Split it into several statements, or pass the nested part in "params".',
      );
  }
}

function noStatement() {
  return errors.invalidRequest([{ path: 'query', problem: 'must contain a statement' }]);
}

function tooLarge() {
  return errors.statementNotAllowed(
    'A statement of this kind cannot be larger than 1 MB.',
    'Split it into several statements, or pass the values in "params".',
  );
}
