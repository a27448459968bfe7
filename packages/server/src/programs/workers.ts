// Several API processes on one machine (ROWHOUSE_WORKERS): the first runs PostgreSQL and the background work, the others
// answer requests. The first process aggregates the metrics, and every worker can serve them.
import cluster, { type Worker } from 'node:cluster';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { AggregatorRegistry, type Registry } from 'prom-client';
import { EngineError } from '../servers/engine-error.ts';

export type Workers = {
  stop(): Promise<void>;
  metrics(): Promise<string>;
  /** Tells all workers, including later ones, that the service is ready. */
  announce(): Promise<void>;
  /** From now on their `/readyz` returns 503. They serve until `stop`. */
  drain(): void;
};

type Options = { count: number; own: Registry; onEvent: (event: string, details: object) => void };

const stopWithinMs = 20_000;

/** Resolves when every worker accepts requests. */
export async function startWorkers({ count, own, onEvent }: Options): Promise<Workers> {
  const aggregator = new AggregatorRegistry();
  const metrics = async () => `${await aggregator.clusterMetrics()}\n${await own.metrics()}`;
  let stopping = false;
  let isAnnounced = false;
  let isDraining = false;

  const launch = () => {
    const worker = cluster.fork();
    worker.on('message', async (message: { rowhouse?: string; id?: number }) => {
      if (message.rowhouse !== 'metrics?') return;
      const text = await metrics().catch(() => '');
      send(worker, { rowhouse: 'metrics', id: message.id, text });
    });
    return worker;
  };
  const ready = (worker: Worker) =>
    new Promise<void>((resolve, reject) => {
      worker.on('message', (message: { rowhouse?: string }) => message.rowhouse === 'ready' && resolve());
      worker.once('exit', (code) =>
        reject(new EngineError(`A worker exited with status ${code} before it was ready.`)),
      );
    });

  /** Resolves when the worker has confirmed. */
  const tell = (worker: Worker) =>
    new Promise<void>((resolve) => {
      worker.on('message', (message: { rowhouse?: string }) => message.rowhouse === 'heard' && resolve());
      worker.once('exit', () => resolve());
      send(worker, { rowhouse: 'announced' });
    });
  const current = () => Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);

  await Promise.all(Array.from({ length: count }, () => ready(launch())));
  cluster.on('exit', async (worker, code, signal) => {
    await sleep(500);
    // Workers that a supervisor signals, too, end by themselves a moment before `stop`.
    if (stopping) return;
    onEvent('worker died', { pid: worker.process.pid, code, signal });
    const next = launch();
    ready(next).then(
      () => {
        // Before the announcement: its `/readyz` must never return 200.
        if (isDraining) send(next, { rowhouse: 'draining' });
        return isAnnounced ? tell(next) : undefined;
      },
      () => {},
    );
  });

  return {
    metrics,
    announce: async () => {
      isAnnounced = true;
      await Promise.all(current().map(tell));
    },
    drain: () => {
      isDraining = true;
      for (const worker of current()) send(worker, { rowhouse: 'draining' });
    },
    stop: async () => {
      stopping = true;
      const workers = current();
      const ends = workers.map((worker) => once(worker, 'exit'));
      for (const worker of workers) {
        // A signal alone makes a worker drain. One that is still starting does not hear the message.
        send(worker, { rowhouse: 'stop' });
        worker.process.kill('SIGTERM');
      }
      await Promise.race([Promise.all(ends), sleep(stopWithinMs, undefined, { ref: false })]);
      for (const worker of workers) if (!worker.isDead()) worker.process.kill('SIGKILL');
    },
  };
}

/** To a worker that may have died. Without a callback, the failure would be an uncaught error, which stops the service. */
function send(worker: Worker, message: { rowhouse: string; id?: number | undefined; text?: string }): void {
  worker.send(message, () => {});
}

export const isWorker = cluster.isWorker;

export function tellReady(): void {
  process.send?.({ rowhouse: 'ready' });
}

/** In a worker. `announced`: the first process has printed the address and the key. */
export function whenTold(acts: Record<'announced' | 'draining' | 'stop', () => void>): void {
  process.on('message', ({ rowhouse: told }: { rowhouse?: string }) => {
    if (told !== 'announced' && told !== 'draining' && told !== 'stop') return;
    acts[told]();
    if (told === 'announced') process.send?.({ rowhouse: 'heard' });
  });
}

/** In a worker: the metrics of all processes, from the first process. */
export function sharedMetrics(own: Registry): () => Promise<string> {
  AggregatorRegistry.setRegistries(own);
  new AggregatorRegistry();
  const asked = new Map<number, (text: string) => void>();
  let next = 0;
  process.on('message', (message: { rowhouse?: string; id?: number; text?: string }) => {
    if (message.rowhouse !== 'metrics' || message.id === undefined) return;
    asked.get(message.id)?.(message.text ?? '');
    asked.delete(message.id);
  });
  return () =>
    new Promise((resolve) => {
      asked.set(++next, resolve);
      process.send?.({ rowhouse: 'metrics?', id: next });
    });
}
