import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { forCommandLine } from './hints.ts';

it('hints of the service become commands', () => {
  expect(forCommandLine('List the projects of this key with GET /api/dbaas/v2/projects.')).toBe(
    'List the projects of this key with rowhouse projects list.',
  );
  expect(forCommandLine('GET /api/dbaas/v2/jobs/j1 reports the progress. DELETE cancels it.')).toBe(
    'rowhouse jobs show j1 reports the progress. rowhouse jobs cancel j1 cancels it.',
  );
  expect(forCommandLine('Now: POST /api/dbaas/v2/backups with {"kind": "full"}.')).toBe(
    'Now: rowhouse backup now --full.',
  );
  expect(forCommandLine('SELECT, DELETE and TRUNCATE still work.')).toBe(
    'SELECT, DELETE and TRUNCATE still work.',
  );
});

it('no hint of the service shows an HTTP path on the command line', () => {
  const source = path.resolve(import.meta.dirname, '../../server/src');
  const left = readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
    .flatMap((file) =>
      // Only of texts: comments and routes are no hints.
      [...readFileSync(path.join(source, file), 'utf8').matchAll(/^(?!\s*(?:\*|\/\/|\/\*)).*$/gm)]
        .flatMap(([line]) => line.match(/['"`][^'"`]*\b(?:GET|POST|PATCH|DELETE) [/…].*/)?.[0] ?? [])
        .map((text) => text.replaceAll(/\$\{\w+\}/g, 'x1'))
        .filter((text) => /\b(GET|POST|PATCH|PUT|DELETE) [/…]/.test(forCommandLine(text)))
        .map((text) => `${file}: ${text}`),
    );
  expect(left).toEqual([]);
});
