// The service's end of the process that hashes passwords: started when it is needed, started again when it died.
import { type ChildProcess, fork } from 'node:child_process';
import { errors } from '../errors.ts';
import type { Answer, HashTask } from './hash-process.ts';

export type HashChild = {
  /** Throws errors.unavailable if the process cannot be started, or dies meanwhile. */
  run(task: Omit<HashTask, 'id'>): Promise<Buffer>;
  stop(): Promise<void>;
};

type Options = { slots: number; onError: (error: unknown) => void; program?: URL };
type Asked = { resolve: (hash: Buffer) => void; reject: (error: Error) => void };

/** One that cannot even start is not tried again and again at every sign-in. */
const pauseMs = 1_000;

export function keepHashChild({ slots, onError, program = programFile() }: Options): HashChild {
  let child: ChildProcess | null = null;
  let failure: { cause: unknown; at: number } | null = null;
  let isStopped = false;
  let next = 0;
  /** All of them are in `child`. */
  const asked = new Map<number, Asked>();

  const start = (): ChildProcess => {
    const started = fork(program, [], {
      // Nothing of our own environment, which may hold the master key.
      env: { UV_THREADPOOL_SIZE: String(slots) },
      execArgv: [],
      // A session of its own: Ctrl-C in a terminal does not reach it, and Linux can put its whole group last.
      detached: true,
      // A stack trace of a failed message could hold a password.
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
    const { resolve, reject } = asked.get(id) ?? {};
    asked.delete(id);
    if (hash === null) reject?.(new Error('The password could not be hashed.'));
    else resolve?.(Buffer.from(hash, 'base64'));
  };

  const end = (ended: ChildProcess, wasReady: boolean, cause: unknown) => {
    if (child !== ended) return;
    child = null;
    failure = wasReady ? null : { cause, at: performance.now() };
    // After an error that was not its end.
    ended.kill('SIGKILL');
    if (!isStopped) onError(cause);
    const lost = [...asked.values()];
    asked.clear();
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
    run: async (task) => {
      const used = getChild();
      return new Promise((resolve, reject) => {
        const id = ++next;
        asked.set(id, { resolve, reject });
        // Without a pid it was not started, and an error event is about to say why.
        if (used.pid === undefined) return;
        used.send({ id, ...task } satisfies HashTask, (error) => error && end(used, true, error));
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

function programFile(): URL {
  // Beside this file once compiled; tests run the sources, and a process of its own cannot.
  const here = import.meta.url;
  return new URL(here.endsWith('.ts') ? '../../dist/users/hash-process.js' : './hash-process.js', here);
}
