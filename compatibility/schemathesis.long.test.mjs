// Schemathesis sends what the OpenAPI document allows, and compares the answers with it.
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { findProgram } from '../packages/server/test/support/programs.ts';
import { useDocument } from './document.mjs';

const { live, place, file, baseOf, run } = useDocument();
const checks =
  'not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance';

it('schemathesis finds no answer that the document does not describe, and no failure of the service', async ({
  skip,
}) => {
  const schemathesis = await findProgram('schemathesis', 'the answers are not compared with the document');
  if (!schemathesis) return skip();
  await openShop();
  writeFileSync(
    path.join(place, 'strict.json'),
    JSON.stringify(strict(JSON.parse(readFileSync(file, 'utf8')))),
  );
  const { status, output } = await run(schemathesis, [
    ...['run', 'strict.json', '--url', baseOf(), '-H', `X-API-Key: ${live.rowhouse.accountKey}`],
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
