// prom-client's metrics of the process. The lag of the event loop is measured here: how late timers fire, because other work
// holds them up. prom-client has Node.js measure it with a timer that wakes an idle service a hundred times a second.
import { createHistogram } from 'node:perf_hooks';
import { collectDefaultMetrics, Gauge, type Registry } from 'prom-client';

const everyMs = 500;
/** The timer of Node.js cannot be left out, but it can fire this rarely. */
const neverMs = 2 ** 31 - 1;

const lag = createHistogram();
/** In nanoseconds. The names are prom-client's. */
const values = [
  { name: 'min', what: 'The shortest time', aggregator: 'min', read: () => lag.min },
  { name: 'max', what: 'The longest time', aggregator: 'max', read: () => lag.max },
  { name: 'mean', what: 'The mean time', aggregator: 'average', read: () => lag.mean },
  {
    name: 'stddev',
    what: 'The standard deviation of the time',
    aggregator: 'average',
    read: () => lag.stddev,
  },
  { name: 'p50', what: 'The median time', aggregator: 'average', read: () => lag.percentile(50) },
  {
    name: 'p90',
    what: 'The 90th percentile of the time',
    aggregator: 'average',
    read: () => lag.percentile(90),
  },
  {
    name: 'p99',
    what: 'The 99th percentile of the time',
    aggregator: 'average',
    read: () => lag.percentile(99),
  },
] as const;

let isMeasured = false;

export function addProcessMetrics(registry: Registry): void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: neverMs });
  if (!isMeasured) measureLag();
  isMeasured = true;
  const gauges = values.map(({ name, what, aggregator, read }) => {
    const metric = `nodejs_eventloop_lag_${name}_seconds`;
    registry.removeSingleMetric(metric);
    const help = `${what} by which timers fired late since the metrics were last read.`;
    const gauge = new Gauge({ name: metric, help, aggregator, registers: [registry], collect });
    return { gauge, read };
  });
  // Called for each of them, in one go: the first call sets all, and begins anew.
  function collect() {
    if (lag.count === 0) return;
    for (const { gauge, read } of gauges) gauge.set(read() / 1e9);
    lag.reset();
  }
}

function measureLag(): void {
  let dueAt = performance.now() + everyMs;
  setInterval(() => {
    const now = performance.now();
    lag.record(Math.max(1, Math.round((now - dueAt) * 1e6)));
    dueAt = now + everyMs;
  }, everyMs).unref();
}
