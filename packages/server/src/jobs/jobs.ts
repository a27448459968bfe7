// Runs jobs: long work that a request starts and does not wait for. A job runs in the process that accepted it. Its row
// in the control database holds its progress, so that every process can report it, and a heartbeat, so that the
// background work can tell a job whose process died (abandoned.ts).
//
// A job that fills a project owns it through projects.filled_by. The project becomes usable in the statement that marks
// the job as done. If the job fails or is cancelled, the project is dropped before the job is reported as ended.
import type { Job, JobKind } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { newId } from '../control/new-id.ts';
import { errors, RowhouseError } from '../errors/errors.ts';
import { AccountSlots, type SlotLimits } from '../lib/account-slots.ts';
import { explainResources } from '../postgres/admin/resource-errors.ts';
import type { Servers } from '../servers/server.ts';
import { dropFilledProjects } from './abandoned.ts';
import { beat, completeJob, endJob, insertJob, type JobError } from './rows.ts';

export type JobRun = {
  id: string;
  /** Aborts when a caller cancels the job, the service stops, or the job was taken for dead. */
  signal: AbortSignal;
  /** From 0 to 1. */
  progress(fraction: number): void;
  /** What it does at present. */
  detail(details: Record<string, unknown>): void;
};

export type NewJob = {
  /** Choose it with `newId()` before the project that the job fills is created. */
  id?: string;
  kind: JobKind;
  /** null: the operator's. */
  accountId: string | null;
  projectId?: string;
};

export type Jobs = {
  /** Registers the job and starts it. `work` returns the job's result. */
  start(job: NewJob, work: (run: JobRun) => Promise<Record<string, unknown>>): Promise<Job>;
  /** Cancels the running jobs of this process and waits for their end. */
  stop(): Promise<void>;
};

type Deps = { control: Control; servers: Servers; onError: (error: unknown) => void };

const heartbeatMs = 1_000;
/** A bound for this process, of each kind. Imports have their own, below it; the others are the operator's. */
const ofUsers = { all: 16, perAccount: 8, kept: 4 };
const ofOperators = { all: 2 };
const limits: Partial<Record<JobKind, SlotLimits>> = {
  restore: ofUsers,
  branch: ofUsers,
  reset: ofUsers,
  drill: ofOperators,
  backup: ofOperators,
  verify: ofOperators,
  prune: ofOperators,
};
const otherwise = { all: 50 };

export function openJobs({ control, servers, onError }: Deps): Jobs {
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();
  const slots = new Map<JobKind, AccountSlots>();

  const run = async (id: string, work: (run: JobRun) => Promise<Record<string, unknown>>): Promise<void> => {
    const ending = new AbortController();
    const signal = AbortSignal.any([stopping.signal, ending.signal]);
    let fraction = 0;
    let details: Record<string, unknown> | null = null;
    let cancelled = false;
    const heartbeat = async () => {
      const state = await beat(control, id, fraction, details);
      cancelled ||= state === 'cancelled';
      if (state !== 'running') ending.abort();
    };
    const timer = setInterval(() => heartbeat().catch(onError), heartbeatMs);
    const progress = (next: number) => {
      fraction = Math.max(fraction, Math.min(1, next));
    };
    const detail = (next: Record<string, unknown>) => {
      details = next;
    };
    try {
      const result = await work({ id, signal, progress, detail });
      // False if the job was taken for dead: then its project is gone or about to be dropped.
      if (!(await completeJob(control, id, result))) throw errors.unavailable('the job was taken for dead');
    } catch (error) {
      if (!signal.aborted && !(error instanceof RowhouseError)) onError(error);
      const reason = stopping.signal.aborted ? stopped : explain(error);
      // The heartbeat continues meanwhile: the background work must not take the job for dead and drop the project too.
      await dropFilledProjects({ control, servers }, id).catch(onError);
      await endJob(control, id, cancelled ? 'cancelled' : 'failed', cancelled ? byRequest : reason);
    } finally {
      clearInterval(timer);
    }
  };

  return {
    start: async ({ id = newId(), kind, accountId, projectId }, work) => {
      if (stopping.signal.aborted) throw errors.unavailable('stopping');
      const ofKind =
        slots.get(kind) ?? new AccountSlots(`jobs of the kind ${kind}`, limits[kind] ?? otherwise);
      slots.set(kind, ofKind);
      const leave = ofKind.enter(accountId);
      const registered = insertJob(control, { id, kind, accountId, projectId: projectId ?? null });
      const working = registered
        .then(
          () => run(id, work).catch(onError),
          () => {},
        )
        .finally(() => {
          running.delete(working);
          leave();
        });
      running.add(working);
      return registered;
    },
    stop: async () => {
      stopping.abort();
      await Promise.allSettled(running);
    },
  };
}

const byRequest: JobError = { code: 'cancelled', message: 'The job was cancelled by a request.' };
const stopped: JobError = {
  code: 'unavailable',
  message: 'The service was stopped before the job ended.',
  hint: 'Start it again.',
};

/** The owner of the project reads this: it must not reveal internals. */
function explain(thrown: unknown): JobError {
  const error = explainResources(thrown) ?? thrown;
  if (!(error instanceof RowhouseError)) {
    return {
      code: 'internal_error',
      message: "Something went wrong inside the service. The service's log has more.",
    };
  }
  const { code, message, hint, details } = error;
  return { code, message, ...(hint !== undefined && { hint }), ...(details !== undefined && { details }) };
}
