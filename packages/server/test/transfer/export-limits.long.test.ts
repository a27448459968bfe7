import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { databaseOf, dumpRoleOf } from '../../src/servers/databases/names.ts';
import { openExports } from '../../src/transfer/export/export.ts';
import { download, exportSessions, noSession, type Project, run, sourceOf } from '../support/exports.ts';
import { address, api, until, useTestService } from '../support/helpers.ts';

const rowhouse = useTestService();
const formats = ['sql', 'custom', 'csv'] as const;
let port = 0;
let large: Project;

beforeAll(async () => {
  await rowhouse.app.listen({ port: 0, host: '127.0.0.1' });
  port = (rowhouse.app.server.address() as AddressInfo).port;
  large = await rowhouse.project('Large');
  // More than all the buffers on the way hold, compressed or not.
  await run(
    rowhouse,
    large,
    'create table noise as select n, gen_random_uuid() as a, gen_random_uuid() as b, gen_random_uuid() as c from generate_series(1, 400000) n',
  );
});

/** A response whose body is not read yet. */
async function open({ slug, key }: Project, format: string): Promise<IncomingMessage> {
  const path = `${api}/projects/${slug}/export?format=${format}`;
  const request = get({ host: '127.0.0.1', port, path, headers: { 'x-api-key': key }, agent: false });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  // A connection that is cut is what is tested.
  request.on('error', () => {});
  response.on('error', () => {});
  return response;
}

/** However it ends. */
const closed = (response: IncomingMessage) =>
  new Promise((resolve) => {
    if (response.closed) resolve(null);
    response.once('close', resolve);
  });

async function isWell(project: Project): Promise<void> {
  expect((await run(rowhouse, project, 'select 1 as one')).rows).toEqual([{ one: 1 }]);
}

describe('an export that cannot go on', () => {
  it.each(formats)('as %s ends with its caller, and leaves no session', async (format) => {
    const response = await open(large, format);
    expect(response.statusCode).toBe(200);
    await once(response, 'readable');
    expect(await exportSessions(rowhouse, large)).toBe(1);
    response.destroy();
    await noSession(rowhouse, large);
    // The next one need not wait, and is whole.
    const next = await until('the next export begins', async () => {
      const answer = await open(large, format);
      if (answer.statusCode === 200) return answer;
      answer.resume();
      return false;
    });
    next.resume();
    await once(next, 'end');
    expect(next.complete).toBe(true);
    await isWell(large);
  });

  it.each(formats)('as %s is ended when its reader stalls', async (format) => {
    const { control, servers } = rowhouse.service.deps;
    const exports = openExports({
      control,
      servers,
      limits: { stallMs: 1_000 },
      ensureCurrent: async () => {},
      onError: () => {},
    });
    const never = () => new Promise<void>(() => {});
    const exporting = exports.run(sourceOf(rowhouse, large.id), format, never, new AbortController().signal);
    await expect(exporting).rejects.toThrow('has read nothing for 1000 ms');
    await noSession(rowhouse, large);
    await isWell(large);
    await exports.stop();
  });

  it.each(formats)('as %s never looks whole when PostgreSQL ends it', async (format) => {
    const response = await open(large, format);
    await once(response, 'readable');
    const { maintenance } = rowhouse.service.deps.server;
    await maintenance.query(
      sql`select pg_terminate_backend(pid) from pg_stat_activity where usename = ${dumpRoleOf(large.id)}`,
    );
    response.resume();
    await closed(response);
    expect(response.complete).toBe(false);
    await noSession(rowhouse, large);
    await isWell(large);
  });

  it.each(formats)('as %s does not last longer than it may', async (format) => {
    const { control, servers } = rowhouse.service.deps;
    const limits = { maxMs: 3_000 };
    const exports = openExports({
      control,
      servers,
      ensureCurrent: async () => {},
      onError: () => {},
      limits,
    });
    let pieces = 0;
    // A reader who takes everything, slowly.
    const write = () => {
      pieces++;
      return new Promise<void>((resolve) => setTimeout(resolve, 400));
    };
    const exporting = exports.run(sourceOf(rowhouse, large.id), format, write, new AbortController().signal);
    await expect(exporting).rejects.toThrow('timeout');
    expect(pieces).toBeGreaterThan(0);
    expect(pieces).toBeLessThan(12);
    await noSession(rowhouse, large);
    await exports.stop();
  });

  it('waits a few seconds for locks, and says what it waits for', async () => {
    const project = await rowhouse.project();
    await run(rowhouse, project, 'create table t (id int)');
    const holder = new pg.Client({ ...address(), database: databaseOf(project.id) });
    await holder.connect();
    await holder.query('begin');
    await holder.query('alter table t add column more int');
    try {
      for (const format of formats) {
        const { status, headers, bytes } = await download(rowhouse, project, format);
        const { error } = JSON.parse(bytes.toString());
        expect([status, error.code, error.details, headers['retry-after']]).toEqual([
          409,
          'conflict',
          { retryable: true },
          '5',
        ]);
        expect(error.hint).toContain('ALTER TABLE');
      }
      await noSession(rowhouse, project);
      await isWell(large);
    } finally {
      await holder.end();
    }
    expect((await download(rowhouse, project, 'sql')).status).toBe(200);
  });
});

it.each(formats)('a slow reader of %s gets all of it', async (format) => {
  const project = await rowhouse.project();
  await run(
    rowhouse,
    project,
    'create table noise as select gen_random_uuid() as a from generate_series(1, 30000)',
  );
  const { control, servers } = rowhouse.service.deps;
  const exports = openExports({ control, servers, ensureCurrent: async () => {}, onError: () => {} });
  // The thread has long ended when the last pieces are taken.
  const slow = async (ms: number) => {
    let size = 0;
    const write = async (piece: Uint8Array) => {
      size += piece.length;
      await new Promise((resolve) => setTimeout(resolve, ms));
    };
    await exports.run(sourceOf(rowhouse, project.id), format, write, new AbortController().signal);
    return size;
  };
  expect(await slow(100)).toBe(await slow(0));
  await exports.stop();
});

it('a reader that is slower than pg_dump gets the same bytes, although their memory is used again', async () => {
  const project = await rowhouse.project();
  await run(
    rowhouse,
    project,
    'create table sums as select n, md5(n::text) from generate_series(1, 500000) n',
  );
  const read = async (pauseMs: number) => {
    const response = await open(project, 'sql');
    const hash = createHash('sha256');
    let size = 0;
    for await (const piece of response) {
      // All but the random word of \restrict, which is near the beginning and the end.
      if (size > 100_000 && size < 15_000_000) hash.update(piece.subarray(0, 15_000_000 - size));
      else if (size <= 100_000 && size + piece.length > 100_000) hash.update(piece.subarray(100_000 - size));
      size += piece.length;
      if (pauseMs > 0) await sleep(pauseMs);
    }
    expect(response.complete).toBe(true);
    return { size, sum: hash.digest('hex') };
  };
  const fast = await read(0);
  expect(fast.size).toBeGreaterThan(16_000_000);
  expect(await read(10)).toEqual(fast);
});

describe('exports at once', () => {
  it('one of a project and two in all; a neighbour works on', async () => {
    const [other, third] = [await rowhouse.project(), await rowhouse.project()];
    await run(
      rowhouse,
      other,
      'create table noise as select gen_random_uuid() as a, repeat(md5(random()::text), 20) from generate_series(1, 200000)',
    );
    const first = await open(large, 'sql');
    const again = await download(rowhouse, large, 'custom');
    expect([
      again.status,
      JSON.parse(again.bytes.toString()).error.code,
      again.headers['retry-after'],
    ]).toEqual([429, 'rate_limited', '10']);
    const second = await open(other, 'csv');
    expect([first.statusCode, second.statusCode]).toEqual([200, 200]);
    const more = await download(rowhouse, third, 'custom');
    expect([more.status, JSON.parse(more.bytes.toString()).error.code, more.headers['retry-after']]).toEqual([
      429,
      'overloaded',
      '10',
    ]);
    await isWell(third);
    await run(rowhouse, large, 'insert into noise (n) values (0)', 'delete from noise where n = 0');
    for (const response of [first, second]) {
      response.resume();
      await once(response, 'end');
      expect(response.complete).toBe(true);
    }
    expect((await download(rowhouse, third, 'custom')).status).toBe(200);
  });

  it('another process counts too', async () => {
    const { control, servers } = rowhouse.service.deps;
    const elsewhere = openExports({
      control,
      servers,
      ensureCurrent: async () => {},
      onError: () => {},
    });
    const left = new AbortController();
    let isReading = false;
    const exporting = elsewhere.run(
      sourceOf(rowhouse, large.id),
      'sql',
      () => {
        isReading = true;
        return new Promise(() => {});
      },
      left.signal,
    );
    exporting.catch(() => {});
    await until('it has begun', async () => isReading);
    expect((await download(rowhouse, large, 'sql')).status).toBe(429);
    left.abort(new Error('left'));
    await expect(exporting).rejects.toThrow('left');
    await noSession(rowhouse, large);
    await elsewhere.stop();
  });

  it('end with the project, and with the service', async () => {
    const { control, servers } = rowhouse.service.deps;
    const exports = openExports({
      control,
      servers,
      ensureCurrent: async () => {},
      onError: () => {},
    });
    const begun: Promise<void>[] = [];
    const start = async (id: string) => {
      let isReading = false;
      const wait = () => {
        isReading = true;
        return new Promise<void>((resolve) => setTimeout(resolve, 200));
      };
      const exporting = exports.run(sourceOf(rowhouse, id), 'sql', wait, new AbortController().signal);
      exporting.catch(() => {});
      begun.push(exporting);
      await until('it has begun', async () => isReading);
    };
    await start(large.id);
    await exports.stop();
    await expect(begun[0]).rejects.toThrow();
    await noSession(rowhouse, large);
    const response = await open(large, 'sql');
    await once(response, 'readable');
    const deleted = await rowhouse.call('DELETE', `/projects/${large.slug}`);
    expect(deleted.status).toBe(200);
    response.resume();
    await closed(response);
    expect(response.complete).toBe(false);
  });
});

it('definitions that need more memory than pg_dump gets end the export, and nothing else', async () => {
  const project = await rowhouse.project('Large definitions');
  // 200 MB of text, which PostgreSQL compresses to 2 MB.
  for (const name of ['big', 'bigger']) {
    await run(
      rowhouse,
      project,
      `do $$ begin
         set local check_function_bodies = off;
         execute format('create function ${name}() returns int language sql as %L', 'select 1 --' || repeat('x', 100000000));
       end $$`,
    );
  }
  const { control, servers } = rowhouse.service.deps;
  const exportWith = async (maxMemoryMb: number) => {
    const exports = openExports({
      control,
      servers,
      limits: { maxMemoryMb },
      ensureCurrent: async () => {},
      onError: () => {},
    });
    let bytes = 0;
    const write = async (piece: Uint8Array) => {
      bytes += piece.length;
    };
    await exports
      .run(sourceOf(rowhouse, project.id), 'custom', write, new AbortController().signal)
      .finally(() => exports.stop());
    return bytes;
  };
  // With enough memory for a text, but not for all of them, pg_dump would leave some out and report success.
  for (const memoryMb of [128, 256, 384])
    await expect(exportWith(memoryMb)).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('memory'),
    });
  expect(await exportWith(1_024)).toBeGreaterThan(200_000_000);
  await noSession(rowhouse, project);
  await isWell(project);
  const neighbour = await rowhouse.project('Neighbour');
  await run(
    rowhouse,
    neighbour,
    'create table noise as select gen_random_uuid() as a from generate_series(1, 30000)',
  );
  expect((await download(rowhouse, neighbour, 'custom')).bytes.length).toBeGreaterThan(500_000);
});
