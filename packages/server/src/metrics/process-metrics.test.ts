import { setTimeout as sleep } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { addProcessMetrics } from './process-metrics.ts';

it('a busy event loop shows in the lag, once', async () => {
  const registry = new Registry();
  addProcessMetrics(registry);
  const read = async () => {
    const text = await registry.metrics();
    const value = (name: string) =>
      Number(new RegExp(`^nodejs_eventloop_lag_${name}_seconds (\\S+)$`, 'm').exec(text)?.[1]);
    return Object.fromEntries(['min', 'max', 'mean', 'p50', 'p99'].map((name) => [name, value(name)]));
  };
  await sleep(1_100);
  await read();
  // Longer than the time between two measurements.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_200);
  await sleep(1_200);
  const { min = 0, max = 0, p50 = 0, p99 = 0 } = await read();
  expect(max).toBeGreaterThan(0.5);
  expect(max).toBeLessThan(10);
  expect(p99).toBeCloseTo(max, 1);
  expect(min).toBeLessThan(max);
  expect(p50).toBeLessThanOrEqual(max);
  await sleep(1_100);
  expect((await read()).max).toBeLessThan(max);
});
