// What a statement is, decided by PostgreSQL's own parser in a thread of its own, before anything is sent.
import { Worker } from 'node:worker_threads';
import { errors } from '../../errors.ts';
import { MemoryBudget } from '../../memory-budget.ts';
import { FairQueue } from './fair-queue.ts';
import { judgeOversizedText } from './oversized-text.ts';
import type { Verdict } from './parser-worker.ts';
import type { Reached } from './references.ts';
import { StatementCache } from './statement-cache.ts';

/**
 * What a statement can leave behind in its session. none: nothing. rows: it changes rows, and a trigger or default may
 * touch the session's state. anything: DO, CALL, DDL, or functions that the project defined.
 */
export type SessionEffect = 'none' | 'rows' | 'anything';
export type Statement = Readonly<{
  effect: SessionEffect;
  preparable: boolean;
  /** It changes rows, so all of it must run even if only some of its rows are wanted. */
  writes: boolean;
  /** It names no change and takes no locks. Unless its effect is `anything`, running it twice is the same as running it once. */
  isRead: boolean;
  /** What it names, if it can reach nothing but that; null if that cannot be told. */
  reached: Reached | null;
  /** Compiled here, for tables that are known to hide nothing: it leaves nothing in a session. */
  isProven: boolean;
  /** The same, so written that its first rows come before its last one is made; null: there is nothing to gain. */
  lazyText: string | null;
  isDelete: boolean;
  /** It adds rows to tables, and does nothing else to them, but for one that an upsert meets. */
  isInsert: boolean;
  /** It can change or remove rows that were there before. */
  changes: boolean;
  /** It can give room back by the time it is committed. */
  canShrink: boolean;
  /** It makes nothing larger, and runs in no transaction. */
  isVacuum: boolean;
  /** It can commit in the middle, or by itself. */
  canCommit: boolean;
  /** False for a text too large to be parsed here. */
  isParsed: boolean;
}>;

/** What has to be cleaned after both. */
export function worstEffect(one: SessionEffect, other: SessionEffect): SessionEffect {
  return order.indexOf(one) > order.indexOf(other) ? one : other;
}
const order: SessionEffect[] = ['none', 'rows', 'anything'];

export type Parser = {
  /** What was parsed before. */
  recall(projectId: string, text: string): Statement | undefined;
  /** Throws errors.overloaded if too many texts of the project wait already. */
  parse(projectId: string, text: string): Promise<Statement>;
  stop(): Promise<void>;
};

/** Larger texts are not parsed here: PostgreSQL itself takes only one statement and the session sees to the rest. */
const maxParsedBytes = 1024 * 1024;
const rememberedText = 8192;
const rememberedBytes = 40 * 1024 * 1024;
/**
 * Texts of each size have a thread of their own: nobody waits for a text that is far larger. The largest short one takes
 * about 5 ms, the largest medium one 100 ms, and one of 1 MB two seconds.
 */
const [shortText, mediumText] = [2_048, 65_536];
/** Of one project, in characters. A large text takes memory, a short one takes its turn: it counts as `leastWaiting`. */
const maxWaiting = 8 * 1024 * 1024;
const leastWaiting = 8_192;
const parseWithinMs = 5_000;

const unparsed: Statement = {
  effect: 'anything',
  preparable: false,
  writes: true,
  isRead: false,
  reached: null,
  isProven: false,
  lazyText: null,
  isDelete: false,
  isInsert: false,
  changes: true,
  canShrink: false,
  isVacuum: false,
  canCommit: true,
  isParsed: false,
};

export function startParser(): Parser {
  const remembered = new StatementCache(rememberedBytes);
  const threads = [startThread(), startThread(), startThread()] as const;
  // With two short texts at the thread, it has work while the first answer is on its way.
  const short = new FairQueue(threads[0].ask, 2);
  const [medium, large] = [new FairQueue(threads[1].ask, 1), new FairQueue(threads[2].ask, 1)];
  // No bound in all: with one, a few projects could have all others refused.
  const waiting = new MemoryBudget({ perProject: maxWaiting, total: Number.POSITIVE_INFINITY });
  const asked = new Map<string, Promise<Verdict>>();

  const ask = async (projectId: string, text: string): Promise<Verdict> => {
    const size = Math.max(text.length, leastWaiting);
    if (!waiting.take(projectId, size)) {
      throw errors.overloaded('Too many new SQL texts of this project wait to be parsed.', 1);
    }
    const queue = text.length <= shortText ? short : text.length <= mediumText ? medium : large;
    try {
      return await queue.add(projectId, text);
    } finally {
      waiting.take(projectId, -size);
    }
  };

  /** Many clients may send the same new text at the same moment: it is parsed once. */
  const askOnce = (projectId: string, text: string): Promise<Verdict> => {
    const key = `${projectId} ${text}`;
    const known = asked.get(key);
    if (known) return known;
    const verdict = ask(projectId, text).finally(() => asked.delete(key));
    asked.set(key, verdict);
    return verdict;
  };

  return {
    recall: (projectId, text) => remembered.get(projectId, text),
    parse: async (projectId, text) => {
      const known = remembered.get(projectId, text);
      if (known) return known;
      if (text.includes('\0')) {
        throw errors.invalidRequest([
          { path: 'query', problem: 'holds a NUL character, which PostgreSQL cannot take' },
        ]);
      }
      if (text.length > maxParsedBytes) {
        const found = judgeOversizedText(text);
        if (found.is === 'refused') judge(await ask(projectId, found.likeText));
        if (found.is === 'allowed') return unparsed;
        throw found.is === 'empty' ? noStatement() : tooLarge();
      }
      if (text.length > rememberedText) return judge(await ask(projectId, text));
      const verdict = await askOnce(projectId, text);
      const meanwhile = remembered.get(projectId, text);
      if (meanwhile) return meanwhile;
      const statement = judge(verdict);
      remembered.add(projectId, text, statement);
      return statement;
    },
    stop: async () => {
      await Promise.all(threads.map((thread) => thread.stop()));
    },
  };
}

type Thread = { ask(text: string): Promise<Verdict>; stop(): Promise<void> };

function startThread(): Thread {
  let worker: Worker | null = null;
  let next = 0;
  /** In the order in which they are parsed: the first one is being parsed now. */
  const waiting = new Map<number, { text: string; resolve: (verdict: Verdict) => void }>();
  let timer: NodeJS.Timeout | undefined;

  const settle = (id: number, verdict: Verdict) => {
    const asked = waiting.get(id);
    if (!asked) return;
    waiting.delete(id);
    keepTime();
    asked.resolve(verdict);
  };

  const keepTime = () => {
    clearTimeout(timer);
    timer = waiting.size > 0 ? setTimeout(breakOff, parseWithinMs) : undefined;
  };

  /** The first in the row took too long, or took the thread with it. */
  const breakOff = () => {
    const [first] = waiting.keys();
    if (first !== undefined) settle(first, { kind: 'broken' });
    recycle();
  };

  /** A parser that ran out of stack is corrupt for good. A new one is made, and asked what the old one was not yet. */
  const recycle = () => {
    const old = worker;
    worker = null;
    void old?.terminate();
    for (const [id, { text }] of waiting) getWorker().postMessage({ id, text });
  };

  const getWorker = (): Worker => {
    if (worker) return worker;
    const started = new Worker(parserFile(), {
      resourceLimits: { stackSizeMb: 8, maxOldGenerationSizeMb: 512 },
    });
    started.unref();
    started.on('message', ({ id, verdict }: { id: number; verdict: Verdict }) => {
      if (worker !== started) return;
      settle(id, verdict);
      if (verdict.kind === 'broken') recycle();
    });
    started.on('error', () => worker === started && breakOff());
    worker = started;
    return started;
  };

  return {
    ask: (text) =>
      new Promise((resolve) => {
        const id = ++next;
        waiting.set(id, { text, resolve });
        if (waiting.size === 1) keepTime();
        getWorker().postMessage({ id, text });
      }),
    stop: async () => {
      clearTimeout(timer);
      await worker?.terminate();
    },
  };
}

function judge(verdict: Verdict): Statement {
  switch (verdict.kind) {
    case 'statement':
      return {
        effect: verdict.effect,
        preparable: verdict.preparable,
        writes: verdict.writes,
        isRead: verdict.isRead,
        reached: verdict.reached,
        isProven: false,
        lazyText: verdict.lazyText,
        isDelete: verdict.isDelete,
        isInsert: verdict.isInsert,
        changes: verdict.changes,
        canShrink: verdict.canShrink,
        isVacuum: verdict.isVacuum,
        canCommit: verdict.canCommit,
        isParsed: true,
      };
    case 'invalid':
      // PostgreSQL says better than we could what is wrong with it.
      return { ...unparsed, isParsed: true };
    case 'empty':
      throw noStatement();
    case 'several':
      throw errors.multipleStatements(verdict.count);
    case 'refused':
      throw errors.statementNotAllowed(verdict.what, verdict.hint);
    case 'broken':
      throw errors.statementNotAllowed(
        'This statement is too deeply nested to be parsed.',
        'Split it up, or build the deep part from parameters.',
      );
  }
}

function noStatement() {
  return errors.invalidRequest([{ path: 'query', problem: 'holds no statement' }]);
}

function tooLarge() {
  return errors.statementNotAllowed(
    'This kind of statement cannot be larger than 1 MB.',
    'Split it up, or put the values into "params".',
  );
}

function parserFile(): URL {
  // Beside this file once compiled; tests run the sources, and a thread cannot.
  const here = import.meta.url;
  return new URL(
    here.endsWith('.ts') ? '../../../dist/query/statement/parser-worker.js' : './parser-worker.js',
    here,
  );
}
