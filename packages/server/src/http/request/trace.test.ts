import { expect, it } from 'vitest';
import { readTrace, requestIdOf } from './trace.ts';

const [traceId, spanId] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];

it('takes a trace over, also of a later version', () => {
  for (const traceparent of [`00-${traceId}-${spanId}-01`, `cc-${traceId}-${spanId}-01-what-comes-later`]) {
    expect(readTrace({ traceparent })).toEqual({ traceId, spanId });
    expect(requestIdOf({ traceparent })).toBe(`${traceId}-${spanId}`);
  }
});

it.each([
  '',
  `ff-${traceId}-${spanId}-01`,
  `00-${traceId}-${spanId}-01-more`,
  `00-${traceId}-${spanId}`,
  `00-${traceId.toUpperCase()}-${spanId}-01`,
  `00-${'0'.repeat(32)}-${spanId}-01`,
  `00-${traceId}-${'0'.repeat(16)}-01`,
  `00-${traceId}-${spanId}-01, 00-${traceId}-${spanId}-01`,
  `00-${traceId}-${spanId}-01\n`,
  `cc-${traceId}-${spanId}-01-${'x'.repeat(600)}`,
])('ignores %j', (traceparent) => {
  expect(readTrace({ traceparent })).toBeNull();
  expect(requestIdOf({ traceparent })).toMatch(/^[0-9a-f-]{36}$/);
});

it("prefers the caller's own id, if it is safe in a log line", () => {
  const traceparent = `00-${traceId}-${spanId}-01`;
  expect(requestIdOf({ 'x-request-id': 'mine', traceparent })).toBe('mine');
  expect(requestIdOf({ 'x-request-id': 'a b', traceparent })).toBe(`${traceId}-${spanId}`);
});
