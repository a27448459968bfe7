// What a statement is, decided by PostgreSQL's own parser in a thread of its own, before anything is sent.
import { Worker } from 'node:worker_threads';
import { LRUCache } from 'lru-cache';
import { errors } from '../errors.ts';
import type { Verdict } from './parser-worker.ts';

/**
 * clean: leaves nothing in the session. data: changes rows, and a trigger or default may touch session state.
 * wild: may do anything (DO, CALL, DDL, functions of the project's own).
 */
export type Conduct = 'clean' | 'data' | 'wild';
export type Statement = Readonly<{
  conduct: Conduct;
  preparable: boolean;
  /** It changes rows, so all of it must run even if only some of its rows are wanted. */
  writes: boolean;
  /** It names no change and takes no locks. Unless it is wild, to run it twice is no different from running it once. */
  isRead: boolean;
  /** What it names, if nothing else can be touched by it; null if that cannot be told. */
  relations: readonly string[] | null;
  /** Compiled here, for tables that are known to hide nothing: it leaves nothing in a session. */
  isProven: boolean;
  /** The same, so written that its first rows come before its last one is made; null: there is nothing to gain. */
  lazyText: string | null;
  /** False for a text too large to be parsed here. */
  isParsed: boolean;
}>;

/** What has to be cleaned after both. */
export function worst(one: Conduct, other: Conduct): Conduct {
  return order.indexOf(one) > order.indexOf(other) ? one : other;
}
const order: Conduct[] = ['clean', 'data', 'wild'];

export type Parser = {
  /** What was parsed before. */
  recall(text: string): Statement | undefined;
  parse(text: string): Promise<Statement>;
  stop(): Promise<void>;
};

/** Larger texts are not parsed here: PostgreSQL itself takes only one statement and the session sees to the rest. */
const maxParsedBytes = 1024 * 1024;
const rememberedText = 8192;
const parseWithinMs = 5_000;

const unparsed: Statement = {
  conduct: 'wild',
  preparable: false,
  writes: true,
  isRead: false,
  relations: null,
  isProven: false,
  lazyText: null,
  isParsed: false,
};

export function startParser(): Parser {
  const remembered = new LRUCache<string, Statement>({ max: 5_000 });
  let worker: Worker | null = null;
  let next = 0;
  const waiting = new Map<number, { resolve: (verdict: Verdict) => void; timer: NodeJS.Timeout }>();
  let stopped = false;

  const settle = (id: number, verdict: Verdict) => {
    const asked = waiting.get(id);
    if (!asked) return;
    clearTimeout(asked.timer);
    waiting.delete(id);
    asked.resolve(verdict);
  };

  /** A parser that ran out of stack is corrupt for good: whatever it was asked gets its answer, and a new one is made. */
  const recycle = (verdict: Verdict) => {
    const old = worker;
    worker = null;
    void old?.terminate();
    for (const id of [...waiting.keys()]) settle(id, verdict);
  };

  const getWorker = (): Worker => {
    if (worker) return worker;
    const started = new Worker(parserFile(), {
      resourceLimits: { stackSizeMb: 8, maxOldGenerationSizeMb: 512 },
    });
    started.unref();
    started.on('message', ({ id, verdict }: { id: number; verdict: Verdict }) => {
      settle(id, verdict);
      if (verdict.kind === 'broken' && worker === started) recycle({ kind: 'broken' });
    });
    started.on('error', () => worker === started && recycle({ kind: 'broken' }));
    worker = started;
    return started;
  };

  const ask = (text: string) =>
    new Promise<Verdict>((resolve) => {
      const id = ++next;
      const timer = setTimeout(() => recycle({ kind: 'broken' }), parseWithinMs);
      waiting.set(id, { resolve, timer });
      getWorker().postMessage({ id, text });
    });

  return {
    recall: (text) => remembered.get(text),
    parse: async (text) => {
      const known = remembered.get(text);
      if (known) return known;
      if (text.includes('\0')) {
        throw errors.invalidRequest([
          { path: 'query', problem: 'holds a NUL character, which PostgreSQL cannot take' },
        ]);
      }
      if (text.length > maxParsedBytes) return unparsed;
      const verdict = await ask(text);
      const statement = judge(verdict);
      if (text.length <= rememberedText) remembered.set(text, statement);
      return statement;
    },
    stop: async () => {
      if (stopped) return;
      stopped = true;
      await worker?.terminate();
    },
  };
}

function judge(verdict: Verdict): Statement {
  switch (verdict.kind) {
    case 'statement':
      return {
        conduct: verdict.conduct,
        preparable: verdict.preparable,
        writes: verdict.writes,
        isRead: verdict.isRead,
        relations: verdict.relations,
        isProven: false,
        lazyText: verdict.lazyText,
        isParsed: true,
      };
    case 'invalid':
      // PostgreSQL says better than we could what is wrong with it.
      return { ...unparsed, isParsed: true };
    case 'empty':
      throw errors.invalidRequest([{ path: 'query', problem: 'holds no statement' }]);
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

function parserFile(): URL {
  // Beside this file once compiled; tests run the sources, and a thread cannot.
  const here = import.meta.url;
  return new URL(here.endsWith('.ts') ? '../../dist/query/parser-worker.js' : './parser-worker.js', here);
}
