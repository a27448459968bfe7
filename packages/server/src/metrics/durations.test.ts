import { AggregatorRegistry, Histogram, Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { addDurations } from './durations.ts';

const observed: [method: string, route: string, status: number, seconds: number][] = [
  ['GET', '/a', 200, 0.0001],
  ['GET', '/a', 200, 0.001],
  ['GET', '/a', 200, 0.0010001],
  ['GET', '/a', 404, 0.3],
  ['POST', '/a', 200, 0.3],
  ['POST', '/b', 503, 31],
  ['POST', '/b', 503, 0],
];

it('reports what a histogram of prom-client reports', async () => {
  const ours = new Registry();
  const durations = addDurations(ours, 'seconds', 'Help.');
  const theirs = new Registry();
  const histogram = new Histogram({
    name: 'seconds',
    help: 'Help.',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers: [theirs],
  });
  expect(await ours.metrics()).toBe(await theirs.metrics());
  for (const [method, route, status, seconds] of observed) {
    durations.observe(method, route, status, seconds);
    histogram.observe({ method, route, status: String(status) }, seconds);
  }
  expect(await ours.metrics()).toBe(await theirs.metrics());
  // Workers send this to the first process, which adds them up.
  const twice = async (registry: Registry) => {
    const one = await registry.getMetricsAsJSON();
    return AggregatorRegistry.aggregate([one, one]).metrics();
  };
  const sum = await twice(ours);
  expect(sum).toBe(await twice(theirs));
  expect(sum).toContain('seconds_count{method="POST",route="/b",status="503"} 4');
});
