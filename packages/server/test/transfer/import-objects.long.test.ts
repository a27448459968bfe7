// Dumps with ten million objects: each is refused before any of it runs, in little memory, while a neighbour is served.
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { writeArchive } from '../support/archives.ts';
import { api, until } from '../support/helpers.ts';
import { cleanUp, launch, newAccountKey, type Running, usedDataFolder } from '../support/process.ts';

const objects = 10_000_000;
const minutes = 60_000;
const accountKey = newAccountKey();
let service: Running;

/**
 * Each test has a service that has imported nothing before. Once an import is over, V8 keeps its garbage for a while, 90 MB after a
 * list of large objects, and gives it back when it likes: a test that began then measured this, and not its own import.
 */
beforeEach(async () => {
  service = await launch({ ROWHOUSE_DATA: await usedDataFolder(), ROWHOUSE_ACCOUNT_KEY: accountKey });
  const { status } = await service.call('POST', '/projects', { body: { name: 'Neighbour', slug: 'near' } });
  expect(status).toBe(201);
}, 2 * minutes);
afterEach(cleanUp);

const residentMb = () =>
  (Number(readFileSync(`/proc/${service.child.pid}/statm`, 'latin1').split(' ')[1]) * 4) / 1024;

/** Sends what the service takes, until it answers. */
async function upload(pieces: Iterable<Buffer>, limitMb: number) {
  let sent = 0;
  function* counted() {
    for (const piece of pieces) {
      sent += piece.length;
      yield piece;
    }
  }
  const sending = request(`${service.url}${api}/projects/import?name=Hostile&limit_mb=${limitMb}`, {
    method: 'POST',
    headers: { 'x-api-key': accountKey, 'content-type': 'application/octet-stream' },
  });
  sending.on('error', () => {});
  const answered = new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    sending.on('response', (response) => {
      let text = '';
      response.on('data', (data) => {
        text += data;
      });
      response.on('end', () => resolve({ status: response.statusCode, text }));
    });
    sending.on('close', () => reject(new Error('The service did not answer.')));
  });
  const body = Readable.from(counted(), { objectMode: false });
  body.pipe(sending);
  const { status, text } = await answered;
  body.destroy();
  sending.destroy();
  return { status, body: JSON.parse(text), sentMb: sent / 1024 ** 2 };
}

/** The most memory, and the longest time that a request of the neighbour took. */
function watch() {
  const before = residentMb();
  const seen = { grownMb: 0, slowestMs: 0, failed: 0 };
  let isOver = false;
  const looking = (async () => {
    while (!isOver) {
      const startedAt = performance.now();
      const { status } = await service.call('POST', '/projects/near/query', { body: { query: 'select 1' } });
      seen.slowestMs = Math.max(seen.slowestMs, performance.now() - startedAt);
      seen.grownMb = Math.max(seen.grownMb, residentMb() - before);
      if (status !== 200) seen.failed++;
      await sleep(20);
    }
  })();
  return async () => {
    isOver = true;
    await looking;
    return seen;
  };
}

const jobEnd = (id: string) =>
  until(
    'the job has ended',
    async () => {
      const { body } = await service.call('GET', `${api}/jobs/${id}`);
      return body.job.status !== 'running' && body.job;
    },
    3 * minutes,
  );

async function expectRefused(pieces: Iterable<Buffer>, limitMb: number) {
  const stop = watch();
  const { status, body } = await upload(pieces, limitMb);
  expect([status, body.error]).toEqual([202, undefined]);
  const startedAt = performance.now();
  const job = await jobEnd(body.job.id);
  const seconds = (performance.now() - startedAt) / 1000;
  const seen = await stop();
  expect([job.status, job.error.code]).toEqual(['failed', 'invalid_dump']);
  expect(job.error.message).toContain('more than 500000 objects');
  expect(job.error.hint).toContain('--schema');
  expect((await service.call('GET', `/projects/${body.project.slug}`)).status).toBe(404);
  expect([seen.failed, seen.slowestMs < 10_000]).toEqual([0, true]);
  console.log(
    `refused ${seconds.toFixed(1)} s after the upload; ${Math.round(seen.grownMb)} MB more memory at most; the neighbour's slowest request took ${Math.round(seen.slowestMs)} ms`,
  );
  return { ...seen, seconds };
}

it('an archive that declares them is refused by its first bytes', { timeout: 5 * minutes }, async () => {
  const head = writeArchive([], { count: objects });
  const text = 'create table public.t ();';
  const entry = writeArchive([{ kind: 'TABLE', name: 't', schema: 'public', text }]).subarray(head.length);
  const thousand = Buffer.concat(Array.from({ length: 1_000 }, () => entry));
  function* pieces() {
    yield head;
    for (let sent = 0; sent < objects; sent += 1_000) yield thousand;
  }
  const stop = watch();
  const { status, body, sentMb } = await upload(pieces(), 512);
  const { failed, grownMb } = await stop();
  expect([status, body.error.code]).toEqual([422, 'invalid_dump']);
  expect(body.error.message).toContain('10000000 entries; at most 500000');
  expect(failed).toBe(0);
  expect([sentMb < 100, grownMb < 200]).toEqual([true, true]);
});

it('an archive that hides them in a few entries is refused', { timeout: 5 * minutes }, async () => {
  const text = 'create table t();'.repeat(900_000);
  const entries = Array.from({ length: 8 }, (_, n) => ({ kind: 'TABLE', name: `t${n}`, text }));
  const { grownMb } = await expectRefused([writeArchive(entries)], 512);
  // All texts of an archive are in memory: at most 128 MB.
  expect(grownMb).toBeLessThan(600);
});

it('an archive with a list of them as large objects is refused', { timeout: 5 * minutes }, async () => {
  const list = (from: number) => Array.from({ length: 1_500_000 }, (_, n) => from + n).join('\n');
  const entries = Array.from({ length: 7 }, (_, n) => ({
    kind: 'BLOB METADATA',
    name: 'BLOBS',
    text: list(10_000_000 + n * 1_500_000),
  }));
  const { grownMb } = await expectRefused([writeArchive(entries)], 512);
  expect(grownMb).toBeLessThan(600);
});

it('a script with them is refused', { timeout: 5 * minutes }, async () => {
  function* pieces() {
    for (let at = 0; at < objects; at += 10_000) {
      const lines = Array.from({ length: 10_000 }, (_, n) => `create table t${at + n} ();\n`);
      yield Buffer.from(lines.join(''));
    }
  }
  const { grownMb } = await expectRefused(pieces(), 128);
  expect(grownMb).toBeLessThan(200);
});

it('a large but ordinary dump is imported', { timeout: 5 * minutes }, async () => {
  const rows = Array.from({ length: 600_000 }, (_, n) => `INSERT INTO t VALUES (${n});\n`).join('');
  const { status, body } = await upload([Buffer.from(`create table t (id int);\n${rows}`)], 512);
  expect([status, body.error]).toEqual([202, undefined]);
  const job = await jobEnd(body.job.id);
  expect([job.status, job.result?.rows]).toEqual(['done', 600_000]);
});
