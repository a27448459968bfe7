// The metrics of HTTP requests, and the text of /metrics. All other metrics are declared in metrics.ts.
// Labels are route patterns and statuses: never slugs, never anything whose number of values a caller controls.
import { Counter, type Registry } from 'prom-client';
import { addDurations } from './durations.ts';
import { addProcessMetrics } from './process-metrics.ts';
import type { NotedRequest } from './project-log.ts';
import { type Counters, createRegistry, type Gauges, type LabelledGauges } from './registry.ts';

export type Metrics = {
  registry: Registry;
  contentType: string;
  /** All metrics in Prometheus' text format. */
  text(): Promise<string>;
  count(finished: NotedRequest): void;
};

export function createMetrics(
  gauges: Gauges,
  counters: Counters = {},
  labelled: LabelledGauges = {},
): Metrics {
  const registry = createRegistry(gauges, counters, labelled);
  addProcessMetrics(registry);
  const durations = addDurations(registry, 'rowhouse_http_request_seconds', 'Time to answer a request.');
  const failures = new Counter({
    name: 'rowhouse_http_failures_total',
    help: 'Responses with status 500 and above.',
    labelNames: ['status'],
    registers: [registry],
  });
  return {
    registry,
    contentType: registry.contentType,
    text: oncePerSecond(() => registry.metrics()),
    count: ({ method, route, status, ms }) => {
      durations.observe(method, route, status, ms / 1000);
      if (status >= 500) failures.inc({ status: String(status) });
    },
  };
}

/** Reading the gauges queries PostgreSQL, and /metrics needs no key: many requests share one reading. */
function oncePerSecond<T>(read: () => Promise<T>): () => Promise<T> {
  let last: { at: number; value: Promise<T> } | null = null;
  return () => {
    if (!last || performance.now() - last.at > 1_000) last = { at: performance.now(), value: read() };
    return last.value;
  };
}
