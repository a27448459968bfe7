import pg from 'pg';
import { expect, it } from 'vitest';
import { PostgresError } from './database.ts';
import { explainResources, explainState } from './resource-errors.ts';

const refused = (code: string) => {
  const error = new pg.DatabaseError('refused', 7, 'error');
  error.code = code;
  return new PostgresError(error);
};

it('what a slow or full server refuses is temporary, and says so', () => {
  const codes = ['57014', '55P03', '40P01', '53100', '53200', '53300'].map((state) => {
    const error = explainResources(refused(state));
    return [state, error?.status, error?.code, error !== null && error.retryAfterS !== undefined];
  });
  expect(codes).toEqual([
    ['57014', 503, 'unavailable', true],
    ['55P03', 503, 'unavailable', true],
    ['40P01', 503, 'unavailable', true],
    ['53100', 507, 'server_full', true],
    ['53200', 503, 'unavailable', true],
    ['53300', 503, 'unavailable', true],
  ]);
});

it('a mistake of the service is not taken for a slow server', () => {
  for (const state of ['42601', '42P01', 'XX000', '23505', ''])
    expect(explainResources(refused(state))).toBeNull();
  expect(explainResources(Object.assign(new Error('cancelled'), { code: '57014' }))).toBeNull();
  expect(explainState(undefined, new Error('cancelled'))).toBeNull();
});
