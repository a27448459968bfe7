import { expect, it } from 'vitest';
import { farewell, openFarewellCheck } from './farewell.ts';
import { errorResponse, ProxyError } from './proxy-error.ts';

const ready = Buffer.from([90, 0, 0, 0, 5, 73]);
const ended = errorResponse(new ProxyError('57P01', 'terminating connection due to administrator command'));
const refused = errorResponse(new ProxyError('28P01', 'password authentication failed'));

it('recognizes the end of a session between two statements, and nothing else', () => {
  const check = openFarewellCheck();
  expect(check(Buffer.concat([Buffer.from('C\0\0\0\rSELECT 1\0'), ready]))).toBe(false);
  expect(check(ended)).toBe(true);
  const others = [refused, Buffer.concat([ended, ended]), ended.subarray(0, -1), Buffer.from('E')];
  for (const bytes of others) {
    const fresh = openFarewellCheck();
    fresh(ready);
    expect(fresh(bytes)).toBe(false);
  }
});

it('does not look into the rows of a statement that is running', () => {
  const check = openFarewellCheck();
  check(ready);
  // The first part of a row, whose value goes on with bytes that look like the end of the session.
  expect(check(Buffer.from('D\0\0\x10\0\0\x01\0\0\x0f'))).toBe(false);
  expect(check(ended)).toBe(false);
});

it('says why, with the state that PostgreSQL uses', () => {
  for (const reason of ['moving', 'held'] as const) expect(farewell(reason).toString()).toContain('C57P01');
  expect(farewell('moving').toString()).toContain('moving to another server');
  expect(farewell('held').toString()).toContain('being branched');
});
