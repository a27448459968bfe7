// The parent's side of the password-hashing process: starts it when it is first needed, and again after it died.
// hash-process.ts is the child's side.
import { type ChildProcess, fork } from 'node:child_process';
import { errors } from '../../errors/errors.ts';
import { compiledFile } from '../../lib/compiled-file.ts';
import type { Answer, HashTask, HashWork } from './hash-process.ts';

export type HashChild = {
  /** Throws errors.unavailable if the process cannot be started or dies before it answers. */
  run(work: HashWork): Promise<Buffer>;
  stop(): Promise<void>;
};

type Options = { slots: number; onError: (error: unknown) => void; program?: URL };
type Pending = { resolve: (hash: Buffer) => void; reject: (error: Error) => void };

/** A process that fails to start is not restarted by every sign-in. */
const pauseMs = 1_000;

export function keepHashChild({
  slots,
  onError,
  program = compiledFile('hash-process.js', import.meta.url),
}: Options): HashChild {
  let child: ChildProcess | null = null;
  let failure: { cause: unknown; at: number } | null = null;
  let isStopped = false;
  let next = 0;
  /** Requests sent to `child` and not answered yet. */
  const pending = new Map<number, Pending>();

  const start = (): ChildProcess => {
    const started = fork(program, [], {
      // Inherits no environment variables: they may contain the master key.
      env: { UV_THREADPOOL_SIZE: String(slots) },
      execArgv: [],
      // Its own POSIX session: Ctrl-C in a terminal does not reach it, and on Linux it has a share of the cores of its own (an
      // autogroup).
      detached: true,
      // A stack trace of a failed message could contain a password.
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    });
    let isReady = false;
    started.on('message', (answer: Answer) => {
      if (child !== started) return;
      if (answer === 'ready') isReady = true;
      else settle(answer.id, answer.hash);
    });
    started.on('error', (error) => end(started, isReady, error));
    started.on('exit', (code, signal) =>
      end(started, isReady, new Error(`The process that hashes passwords ended (${signal ?? code}).`)),
    );
    started.unref();
    started.channel?.unref();
    return started;
  };

  const settle = (id: number, hash: string | null) => {
    const { resolve, reject } = pending.get(id) ?? {};
    pending.delete(id);
    if (hash === null) reject?.(new Error('The password could not be hashed.'));
    else resolve?.(Buffer.from(hash, 'base64'));
  };

  const end = (ended: ChildProcess, wasReady: boolean, cause: unknown) => {
    if (child !== ended) return;
    child = null;
    failure = wasReady ? null : { cause, at: performance.now() };
    // An 'error' event does not mean that the process ended.
    ended.kill('SIGKILL');
    if (!isStopped) onError(cause);
    const lost = [...pending.values()];
    pending.clear();
    for (const { reject } of lost) reject(errors.unavailable(cause));
  };

  const getChild = (): ChildProcess => {
    if (isStopped) throw errors.unavailable('stopping');
    if (failure && performance.now() - failure.at < pauseMs) throw errors.unavailable(failure.cause);
    try {
      child ??= start();
      return child;
    } catch (error) {
      failure = { cause: error, at: performance.now() };
      onError(error);
      throw errors.unavailable(error);
    }
  };

  return {
    run: async (work) => {
      const used = getChild();
      return new Promise((resolve, reject) => {
        const id = ++next;
        pending.set(id, { resolve, reject });
        // Without a pid the process was not started; an 'error' event with the reason follows.
        if (used.pid === undefined) return;
        used.send({ id, ...work } satisfies HashTask, (error) => error && end(used, true, error));
      });
    },
    stop: async () => {
      isStopped = true;
      const last = child;
      if (last?.pid === undefined) return;
      last.ref();
      const exited = new Promise((resolve) => last.once('exit', resolve));
      last.kill('SIGKILL');
      await exited;
    },
  };
}
