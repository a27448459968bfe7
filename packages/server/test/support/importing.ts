// What tests of imports share: uploads, jobs, and a look at everything that a project holds.

import { mkdtempSync, rmSync } from 'node:fs';
import { type ClientRequest, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterAll, expect, onTestFinished } from 'vitest';
import { databaseOf } from '../../src/servers/databases/names.ts';
import type { Project } from './exports.ts';
import { address, api, jobEnd, type TestService, useTestService } from './helpers.ts';

// biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of many shapes
type Body = any;

export async function upload(
  rowhouse: TestService,
  dump: Buffer | string,
  query = 'name=Imported',
  type = 'application/octet-stream',
): Promise<{ status: number; body: Body }> {
  const response = await rowhouse.app.inject({
    method: 'POST',
    url: `${api}/projects/import?${query}`,
    headers: { 'x-api-key': rowhouse.accountKey, 'content-type': type },
    payload: dump,
  });
  return { status: response.statusCode, body: response.json() };
}

/** Uploads, and waits for the job. */
export async function importDump(rowhouse: TestService, dump: Buffer | string, query?: string) {
  const { status, body } = await upload(rowhouse, dump, query);
  expect([status, body.error]).toEqual([202, undefined]);
  expect(body.project.status).toBe('creating');
  const job = await jobEnd(rowhouse, body.job.id);
  const project: Project = { slug: body.project.slug, id: body.project.id, key: body.api_key };
  return { project, job };
}

/** Nothing of a project is there any more. */
export async function isGone(rowhouse: TestService, { slug, id }: Project): Promise<void> {
  expect((await rowhouse.call('GET', `/projects/${slug}`)).status).toBe(404);
  const client = new pg.Client({ ...address() });
  await client.connect();
  try {
    const { rows } = await client.query(
      `select datname as name from pg_database where datname = $1 union all select rolname from pg_roles where rolname ~ $2`,
      [databaseOf(id), `^p_${id}`],
    );
    expect(rows).toEqual([]);
  } finally {
    await client.end();
  }
}

/** A request on a real connection, which can be slow, or end. The service has to listen. */
export function connect(
  { app, accountKey }: TestService,
  method: string,
  target: string,
  headers: Record<string, string> = {},
) {
  const { port } = app.server.address() as AddressInfo;
  const sending: ClientRequest = request({
    host: '127.0.0.1',
    port,
    method,
    path: api + target,
    headers: {
      'x-api-key': accountKey,
      'content-type': 'application/octet-stream',
      connection: 'keep-alive',
      ...headers,
    },
  });
  sending.on('error', () => {});
  onTestFinished(() => void sending.destroy());
  const answer = new Promise<{ status: number | undefined; text: string }>((resolve) =>
    sending.on('response', (response) => {
      let text = '';
      response.on('data', (data) => {
        text += data;
      });
      response.on('end', () => resolve({ status: response.statusCode, text }));
    }),
  );
  return { sending, answer };
}

type Skipped = { entry: string; reason: string; lost: boolean };

/** The lines of an import's report about what was lost. */
export const lostOf = (job: { result: { skipped: Skipped[] } }): string[] =>
  job.result.skipped.filter(({ lost }) => lost).map(({ entry, reason }) => `${entry}: ${reason}`);

/** A service that takes imports into a folder of its own, which is removed at the end. */
export function useImports(): TestService {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-imports-'));
  const rowhouse = useTestService({
    imports: { folder: path.join(folder, 'imports'), allowPrivateHosts: false },
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  return rowhouse;
}
