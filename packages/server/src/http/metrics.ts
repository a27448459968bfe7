// What operators watch. Labels are route patterns and statuses: never slugs, never anything a caller can multiply.

import { setTimeout as sleep } from 'node:timers/promises';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Finished } from './request-log.ts';

export type Metrics = {
  registry: Registry;
  contentType: string;
  /** All of it, in Prometheus' text form. */
  text(): Promise<string>;
  count(finished: Finished): void;
};

/** A number that PostgreSQL does not give within this is not waited for. */
const gaugeMs = 2_000;

/** Read when the metrics are asked for. */
export type Gauges = Record<string, { help: string; read: () => number | Promise<number> }>;

/** What only rises, with one label of few values; each process counts its own, and they are added up. */
export type Counters = Record<string, { help: string; label: string; read: () => Record<string, number> }>;

export function createMetrics(gauges: Gauges, counters: Counters = {}): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const durations = new Histogram({
    name: 'rowhouse_http_request_seconds',
    help: 'Time to answer a request.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [registry],
  });
  const failures = new Counter({
    name: 'rowhouse_http_failures_total',
    help: 'Answers with status 500 and above.',
    labelNames: ['status'],
    registers: [registry],
  });
  addGauges(registry, gauges);
  addCounters(registry, counters);
  return {
    registry,
    contentType: registry.contentType,
    text: oncePerSecond(() => registry.metrics()),
    count: ({ method, route, status, ms }) => {
      durations.observe({ method, route, status: String(status) }, ms / 1000);
      if (status >= 500) failures.inc({ status: String(status) });
    },
  };
}

/** Gauges alone, for a process that answers no requests. */
export function gaugeRegistry(gauges: Gauges): Registry {
  const registry = new Registry();
  addGauges(registry, gauges);
  return registry;
}

function addGauges(registry: Registry, gauges: Gauges): void {
  for (const [name, { help, read }] of Object.entries(gauges)) {
    new Gauge({
      name,
      help,
      registers: [registry],
      // Every process reads the same number: with several workers it must not be added up.
      aggregator: 'max',
      async collect() {
        // One number that cannot be had must not take the others away.
        const late = sleep(gaugeMs, Number.NaN, { ref: false });
        this.set(await Promise.race([Promise.resolve(read()).catch(() => Number.NaN), late]));
      },
    });
  }
}

function addCounters(registry: Registry, counters: Counters): void {
  for (const [name, { help, label, read }] of Object.entries(counters)) {
    new Counter({
      name,
      help,
      labelNames: [label],
      registers: [registry],
      collect() {
        this.reset();
        for (const [value, count] of Object.entries(read())) this.inc({ [label]: value }, count);
      },
    });
  }
}

/** Reading the gauges asks PostgreSQL; whoever asks for the metrics needs no key. */
function oncePerSecond<T>(read: () => Promise<T>): () => Promise<T> {
  let last: { at: number; value: Promise<T> } | null = null;
  return () => {
    if (!last || performance.now() - last.at > 1_000) last = { at: performance.now(), value: read() };
    return last.value;
  };
}
