// The OpenAPI document as others' programs read it: a linter, a generator of types, and a program that sends what the document
// allows and what it does not, and compares the answers with it.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { folder, useLiveService } from './service.mjs';

const live = useLiveService();
const place = mkdtempSync(path.join(tmpdir(), 'rowhouse-openapi-'));
afterAll(() => rmSync(place, { recursive: true, force: true }));
const file = path.join(place, 'openapi.json');
const program = (name) => path.join(folder, 'node_modules', '.bin', name);
let base = '';

beforeAll(async () => {
  base = live.endpoint.replace(/\/sql$/, '');
  writeFileSync(file, await (await fetch(`${base}/openapi.json`)).text());
});

/** Without blocking this process, in which the service runs. */
async function run(command, args, env = {}) {
  const child = spawn(command, args, {
    cwd: place,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += data));
  const [status] = await once(child, 'close');
  return { status, output };
}

it('redocly finds neither errors nor warnings', async () => {
  const env = { REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  const { status, output } = await run(program('redocly'), ['lint', file, '--format', 'json'], env);
  expect(status, output).toBe(0);
  const { totals, problems } = JSON.parse(output.slice(output.indexOf('{'), output.lastIndexOf('}') + 1));
  expect(problems).toEqual([]);
  expect(totals).toMatchObject({ errors: 0, warnings: 0 });
});

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

const pinned = 'schemathesis==4.32.5';
const checks =
  'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance';

/** null: Python cannot install it here. */
function installSchemathesis() {
  const venv = path.join(place, 'venv');
  const steps = [
    ['python3', ['-m', 'venv', venv]],
    [path.join(venv, 'bin/pip'), ['install', '--quiet', pinned]],
  ];
  for (const [command, args] of steps)
    if (spawnSync(command, args, { timeout: 240_000, stdio: 'ignore' }).status !== 0) return null;
  return path.join(venv, 'bin/schemathesis');
}

it('schemathesis finds no answer that the document does not describe, and no failure of the service', async ({
  skip,
}) => {
  const schemathesis = installSchemathesis();
  if (!schemathesis) {
    console.warn(`SKIPPED: Python with venv cannot install ${pinned}, so the answers are not compared.`);
    skip();
  }
  await openShop();
  writeFileSync(
    path.join(place, 'strict.json'),
    JSON.stringify(strict(JSON.parse(readFileSync(file, 'utf8')))),
  );
  const { status, output } = await run(schemathesis, [
    ...['run', 'strict.json', '--url', base, '-H', `X-API-Key: ${live.rowhouse.accountKey}`],
    ...['--checks', checks, '--phases', 'examples,coverage,fuzzing', '--seed', '1', '--max-time', '120'],
    ...['--max-examples', '10', '--request-timeout', '60', '--workers', '1', '--no-shrink'],
    ...['--suppress-health-check', 'all', '--warnings', 'off', '--continue-on-failure'],
    // It would take away what the others need.
    ...['--exclude-operation-id', 'deleteProject'],
  ]);
  expect(status, output).toBe(0);
  expect(Number(/(\d+) generated/.exec(output)?.[1]), output).toBeGreaterThan(200);
});

/** The project, the table and the user of the examples. */
async function openShop() {
  const { rowhouse } = live;
  const { slug } = await rowhouse.project('My Shop');
  const query =
    'create table teas (id integer generated always as identity primary key, name text, price numeric)';
  const path = `/projects/${slug}`;
  expect((await rowhouse.call('POST', `${path}/query`, { body: { query } })).status).toBe(200);
  const user = { email: 'ada@example.com', password: 'correct horse' };
  expect((await rowhouse.call('POST', `${path}/auth/signup`, { body: user })).status).toBe(201);
}

/** Every status has to be documented itself, and requests are about the project and the table that exist. */
function strict(document) {
  // A statement that takes longer than its caller allows gets 504, which is no failure of the service.
  const { RunQuery, RunBatch } = document.components.schemas;
  for (const { properties } of [RunQuery, RunBatch]) properties.timeout_ms.minimum = 20_000;
  for (const methods of Object.values(document.paths)) {
    for (const operation of Object.values(methods)) {
      delete operation.responses.default;
      // It cannot write these.
      delete operation.requestBody?.content['application/x-ndjson'];
      for (const parameter of operation.parameters ?? []) {
        const { name, example } = parameter;
        if (parameter.in === 'path' && ['slug', 'table'].includes(name))
          parameter.schema = { ...parameter.schema, enum: [example] };
      }
    }
  }
  return document;
}
