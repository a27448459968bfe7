// One statement at a time: run, preview, explain, cancel. It runs the text that was passed in, never a later one.

import type { QueryResponse } from '@rowhouse/api';
import { useQueryClient } from '@tanstack/react-query';
import { useRef, useState } from 'react';
import { type ApiError, isAbort, toApiError, unreachable } from '../api/error.ts';
import { open, path } from '../api/request.ts';
import { addHistory, historyKey } from '../drafts/saved-queries.ts';
import { resultRowsMax } from '../limits.ts';
import { mayWrite } from '../session/may.ts';
import { useSession } from '../session/use-session.ts';
import { estimateChanges, type PlanNode, readPlan } from './plan.ts';
import { resultReader } from './read-result.ts';
import { effectOf, isPlanned } from './statements.ts';

/** A statement with the values of its parameters. */
export type Chosen = { sql: string; params: (string | null)[] };

export type Outcome =
  | { kind: 'idle' }
  | { kind: 'running'; since: number }
  | { kind: 'rows'; chosen: Chosen; result: QueryResponse; isReading: boolean }
  | ({ kind: 'preview'; chosen: Chosen } & Preview)
  | { kind: 'plan'; plan: PlanNode; hasTimes: boolean }
  | { kind: 'cancelled' }
  | { kind: 'failed'; chosen: Chosen; error: ApiError };

/** `problem`: why there is no result. `estimate`: how many rows PostgreSQL then expects to change, if it can tell. */
type Preview =
  | { result: QueryResponse; problem: null; estimate: null }
  | { result: null; problem: ApiError; estimate: number | null };

/** A preview really runs, with its locks, so it may not take long. */
const previewMs = 5_000;
const redrawMs = 100;
/** What the history takes. */
const historyTextMax = 100_000;

export function useRun(slug: string) {
  const client = useQueryClient();
  const isWritable = mayWrite(useSession());
  const [outcome, setOutcome] = useState<Outcome>({ kind: 'idle' });
  const running = useRef<AbortController | null>(null);

  type Steps = {
    onRows?: (result: QueryResponse) => void;
    onDone: (result: QueryResponse) => void;
    onFailed?: (error: ApiError) => void;
  };
  const send = async (chosen: Chosen, options: object, { onRows, onDone, onFailed }: Steps) => {
    running.current?.abort();
    const controller = new AbortController();
    running.current = controller;
    const isCurrent = () => running.current === controller;
    setOutcome({ kind: 'running', since: Date.now() });
    const { sql: query, params } = chosen;
    const body = { query, params, numbers: 'string', limit: resultRowsMax, ...options };
    try {
      const result = await readAnswer(slug, body, controller.signal, (rows) => isCurrent() && onRows?.(rows));
      if (isCurrent()) onDone(result);
    } catch (problem) {
      if (!isCurrent()) return;
      const error = toApiError(problem);
      if (isAbort(problem)) setOutcome({ kind: 'cancelled' });
      else if (onFailed) onFailed(error);
      else setOutcome({ kind: 'failed', chosen, error });
    }
  };
  const note = (chosen: Chosen, result: QueryResponse | null, error: ApiError | null) => {
    if (!isWritable || chosen.sql.length > historyTextMax) return;
    const count = result && (result.columns.length > 0 ? result.row_count : result.affected);
    const entry = {
      query: chosen.sql,
      duration_ms: result?.duration_ms ?? null,
      row_count: count,
      error: error?.code ?? null,
    };
    // A statement that ran must not look failed because the history could not be written.
    void addHistory(slug, entry).then(
      () => client.invalidateQueries({ queryKey: historyKey(slug) }),
      () => {},
    );
  };
  const execute = (chosen: Chosen, options: object = {}) =>
    send(chosen, options, {
      onRows: (result) => setOutcome({ kind: 'rows', chosen, result, isReading: true }),
      onDone: (result) => {
        setOutcome({ kind: 'rows', chosen, result, isReading: false });
        note(chosen, result, null);
        // A statement can have changed tables, their sizes or their rows.
        if (!/^\s*(select|values|show|explain)\b/i.test(chosen.sql)) {
          void client.invalidateQueries({ queryKey: ['project', slug] });
        }
      },
      onFailed: (error) => {
        setOutcome({ kind: 'failed', chosen, error });
        note(chosen, null, error);
      },
    });
  const preview = (chosen: Chosen) =>
    send(
      chosen,
      { dry_run: true, timeout_ms: previewMs },
      {
        onDone: (result) => setOutcome({ kind: 'preview', chosen, result, problem: null, estimate: null }),
        onFailed: (error) => {
          // Some statements cannot run in a transaction, and some are slow: the person decides without a preview.
          if (error.code === 'query_timeout' && isPlanned(chosen.sql)) void estimate(chosen, error);
          else if (['query_timeout', 'statement_not_allowed'].includes(error.code))
            showWithout(chosen, error, null);
          else setOutcome({ kind: 'failed', chosen, error });
        },
      },
    );
  const showWithout = (chosen: Chosen, problem: ApiError, expected: number | null) =>
    setOutcome({ kind: 'preview', chosen, result: null, problem, estimate: expected });
  /** The statement is planned, not run. */
  const estimate = (chosen: Chosen, problem: ApiError) =>
    send(
      { ...chosen, sql: `explain (format json) ${chosen.sql}` },
      { read_only: true, timeout_ms: previewMs },
      {
        onDone: (result) => showWithout(chosen, problem, estimateChanges(result)),
        onFailed: () => showWithout(chosen, problem, null),
      },
    );
  return {
    outcome,
    isRunning: outcome.kind === 'running' || (outcome.kind === 'rows' && outcome.isReading),
    /** A statement that changes or removes is previewed first. */
    run: (chosen: Chosen) => (effectOf(chosen.sql) === 'reads' ? execute(chosen) : preview(chosen)),
    apply: (chosen: Chosen, maxAffected: number | null) =>
      execute(chosen, maxAffected === null ? {} : { max_affected: maxAffected }),
    explain: ({ sql, params }: Chosen, isAnalyze: boolean) => {
      const query = `explain (${isAnalyze ? 'analyze, buffers, ' : ''}format json) ${sql}`;
      // ANALYZE runs the statement: a dry run rolls it back.
      return send({ sql: query, params }, isAnalyze ? { dry_run: true } : {}, {
        onDone: (result) => setOutcome({ kind: 'plan', plan: readPlan(result), hasTimes: isAnalyze }),
      });
    },
    cancel: () => running.current?.abort(),
    dismiss: () => setOutcome({ kind: 'idle' }),
  };
}

/** `onRows` gets the rows that have arrived, a few times a second. */
async function readAnswer(
  slug: string,
  body: object,
  signal: AbortSignal,
  onRows: (result: QueryResponse) => unknown,
): Promise<QueryResponse> {
  const response = await open('POST', path`projects/${slug}/query`, { body, signal });
  const stream = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!stream) throw unreachable(response.status);
  const reader = resultReader();
  let drawnAt = performance.now();
  try {
    for (let read = await stream.read(); !read.done; read = await stream.read()) {
      const hasRows = reader.push(read.value);
      if (!hasRows || performance.now() - drawnAt < redrawMs) continue;
      drawnAt = performance.now();
      const soFar = reader.soFar();
      if (soFar) onRows(soFar);
    }
    return reader.end();
  } catch (error) {
    throw isAbort(error) ? error : unreachable();
  }
}
