// The OpenAPI document as a generator of types reads it.
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { useDocument } from './document.mjs';
import { folder } from './service.mjs';

const { place, file, run } = useDocument();
const program = (name) => path.join(folder, 'node_modules', '.bin', name);

it('openapi-typescript makes types of it that fit the API', async () => {
  const made = await run(program('openapi-typescript'), [file, '--output', 'api.ts']);
  expect(made.status, made.output).toBe(0);
  writeFileSync(
    path.join(place, 'use.ts'),
    `import type { components, operations } from './api';
type Schemas = components['schemas'];
export const body: Schemas['RunQuery'] = { query: 'select 1', params: [1], limit: 5 };
export const slug = (answer: Schemas['CreatedProjectResponse']): string => answer.project.slug + answer.api_key;
export const hint = ({ error }: Schemas['ErrorBody']): string | undefined =>
  error.code === 'sql_error' ? error.sql?.state : error.hint;
export const rows = (
  answer: operations['runQuery']['responses'][200]['content']['application/json'],
): number => answer.row_count + answer.rows.length;
export const path: operations['readRows']['parameters']['path'] = { slug: 'my-shop', table: 'teas' };
// @ts-expect-error it needs a query
export const wrong: Schemas['RunQuery'] = {};
`,
  );
  const args = [
    '--noEmit',
    '--strict',
    '--target',
    'es2022',
    '--moduleResolution',
    'bundler',
    '--module',
    'esnext',
  ];
  const compiled = await run(program('tsc'), [...args, 'use.ts']);
  expect(compiled.status, compiled.output).toBe(0);
});
