import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import type { ClientRequest } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { jobEnd, until, useTestService } from '../support/helpers.ts';
import { connect } from '../support/importing.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-pace-'));
const pace = { windowMs: 3_000, minBytes: 1_000 };
const rowhouse = useTestService({
  imports: { folder, allowPrivateHosts: false, limits: { pace } },
  timeouts: { headersMs: 2_000, requestMs: 3_000, checkMs: 50 },
});

beforeAll(async () => {
  await rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const comment = `-- ${'x'.repeat(500)}\n`;

/** Sends the next of `pieces` every 100 ms, and then ends, if it may. */
function trickle(sending: ClientRequest, pieces: Iterable<string>, ends: boolean) {
  const iterator = pieces[Symbol.iterator]();
  const timer = setInterval(() => {
    const { value, done } = iterator.next();
    if (!done) sending.write(value);
    else if (ends) sending.end();
    if (done) clearInterval(timer);
  }, 100);
  onTestFinished(() => clearInterval(timer));
}

function* endless(text: string) {
  for (;;) yield text;
}

describe('an upload that takes long', () => {
  it('is imported as long as enough arrives, although other requests have less time', async () => {
    const { sending, answer } = connect(rowhouse, 'POST', '/projects/import?name=Slow');
    const began = performance.now();
    const rows = Array.from({ length: 50 }, () => comment);
    trickle(sending, ['create table t (a int);\n', ...rows], true);
    const { status, text } = await answer;
    expect([status, performance.now() - began > 4_000]).toEqual([202, true]);
    expect((await jobEnd(rowhouse, JSON.parse(text).job.id)).result.tables).toBe(1);
  });

  it('is cut off when it trickles, and others are served meanwhile', async () => {
    const { sending, answer } = connect(rowhouse, 'POST', '/projects/import?name=Trickle');
    trickle(sending, endless('-\n'), false);
    await until('it is connected', async () => sending.socket);
    const closed = new Promise((resolve) => sending.socket?.once('close', resolve));
    expect((await rowhouse.call('GET', '/projects')).status).toBe(200);
    const { status, text } = await answer;
    expect([status, JSON.parse(text).error.code]).toEqual([408, 'request_timeout']);
    // It goes on sending, so the service closes the connection.
    await closed;
    expect(readdirSync(folder).filter((name) => name !== 'uploads')).toEqual([]);
  });

  it('leaves room for other requests: an account sends three at once', async () => {
    const three = [0, 1, 2].map(() => connect(rowhouse, 'POST', '/projects/import?name=Three'));
    for (const { sending } of three) trickle(sending, endless(comment), false);
    const fourth = await until('the fourth is refused', async () => {
      const answer = await rowhouse.call('POST', '/projects/import?name=Fourth', {
        raw: '',
        headers: { 'content-type': 'application/sql' },
      });
      return answer.status === 429 && answer;
    });
    expect([fourth.status, fourth.body.error.code]).toEqual([429, 'rate_limited']);
    expect(fourth.headers['retry-after']).toBe('30');
    for (const { sending } of three) sending.on('error', () => {}).destroy();
    await until('there is room again', async () => {
      const { status } = await rowhouse.call('POST', '/projects/import?name=Fifth', {
        raw: '',
        headers: { 'content-type': 'application/sql' },
      });
      return status === 422;
    });
  });
});
