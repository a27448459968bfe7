import { readFileSync } from 'node:fs';
import { errorCodes } from '@rowhouse/api';
import { expect, it } from 'vitest';

// The client has no dependencies, so its list of codes is a copy of the API's. Types do not exist at run time; the source does.
it('lists exactly the error codes of the API', () => {
  const source = readFileSync(new URL('errors.ts', import.meta.url), 'utf8');
  const [, declaration = ''] = /export type ServiceErrorCode =([^;]*);/.exec(source) ?? [];
  const listed = [...declaration.matchAll(/'(\w+)'/g)].map(([, code]) => code);
  expect(listed).toEqual(Object.keys(errorCodes).sort());
});
