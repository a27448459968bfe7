import { mkdtempSync, readdirSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../support/exports.ts';
import {
  type Answer,
  api,
  jobEnd,
  openSecondProcess,
  type TestService,
  until,
  useTestService,
} from '../support/helpers.ts';
import { connect } from '../support/importing.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-uploads-'));
const uploadsFolder = path.join(folder, 'uploads');
const imports = { folder, allowPrivateHosts: false, limits: { keptPerAccount: 3 } };
const rowhouse = useTestService({ imports });

beforeAll(async () => {
  await rowhouse.app.listen({ host: '127.0.0.1', port: 0 });
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const send = (id: string, offset: number | string, raw: Buffer | string, service: TestService = rowhouse) =>
  service.call('PATCH', `${api}/uploads/${id}`, {
    raw,
    key: rowhouse.accountKey,
    headers: { 'content-type': 'application/octet-stream', 'upload-offset': String(offset) },
  });
const offsetOf = async (id: string) =>
  (await rowhouse.call('GET', `${api}/uploads/${id}`)).body.upload?.offset;
const begin = (body: object = {}) => rowhouse.call('POST', `${api}/uploads`, { body });
const start = (id: string, bytes: number, more: object = {}) =>
  rowhouse.call('POST', '/projects/import', { body: { name: 'Parts', upload: { id, bytes }, ...more } });
const codes = ({ status, body }: Answer) => [status, body.error?.code];

describe('an upload in parts', () => {
  const dump = `create table t (a text);\ncopy t from stdin;\n${'a row\n'.repeat(5_000)}\\.\n`;

  it('continues where it was interrupted, is imported once, and is gone then', async () => {
    const begun = await begin({ bytes: dump.length });
    const { id } = begun.body.upload;
    expect([begun.status, begun.headers.location]).toEqual([201, `${api}/uploads/${id}`]);
    expect(begun.body.upload).toMatchObject({ offset: 0, max_bytes: dump.length });
    const { sending } = connect(rowhouse, 'PATCH', `/uploads/${id}`, { 'upload-offset': '0' });
    sending.write(dump.slice(0, 10_000));
    await until('a part has arrived', async () => (await offsetOf(id)) === 10_000);
    sending.destroy();
    expect(codes(await start(id, dump.length))).toEqual([409, 'conflict']);
    const wrong = await send(id, 0, dump);
    expect([...codes(wrong), wrong.body.error.details]).toEqual([
      ...[409, 'conflict', { retryable: true, offset: 10_000 }],
    ]);
    const rest = await send(id, 10_000, dump.slice(10_000));
    expect([rest.status, rest.body.upload.offset]).toEqual([200, dump.length]);
    // A project that cannot be created leaves the upload as it is.
    const { slug } = await rowhouse.project('Taken');
    expect(codes(await start(id, dump.length, { slug }))).toEqual([409, 'slug_taken']);
    const { status, body } = await start(id, dump.length);
    expect(status).toBe(202);
    expect((await jobEnd(rowhouse, body.job.id)).result).toMatchObject({ tables: 1, rows: 5_000 });
    const project = { slug: body.project.slug, id: body.project.id, key: body.api_key };
    expect((await run(rowhouse, project, 'select count(*)::int as n from t')).rows).toEqual([{ n: 5_000 }]);
    expect(codes(await start(id, dump.length))).toEqual([404, 'upload_not_found']);
    expect(readdirSync(uploadsFolder)).toEqual([]);
  });

  it('in a format that cannot be imported is refused by its first bytes', async () => {
    const packed = Buffer.concat([Buffer.from([0x1f, 0x8b, 8, 0]), Buffer.alloc(5_000, 1)]);
    const { id } = (await begin()).body.upload;
    for (const [method, target] of [
      ['POST', '/projects/import?name=Packed'],
      ['PATCH', `/uploads/${id}`],
    ] as const) {
      const { sending, answer } = connect(rowhouse, method, target, { 'upload-offset': '0' });
      // More would follow.
      sending.write(packed);
      const { status, text } = await answer;
      expect([status, JSON.parse(text).error]).toMatchObject([
        422,
        { code: 'invalid_dump', hint: expect.stringContaining('gunzip') },
      ]);
    }
    expect(await offsetOf(id)).toBe(0);
    await rowhouse.call('DELETE', `${api}/uploads/${id}`);
  });

  it('goes on at once after a connection that only looks alive', async () => {
    const { id } = (await begin()).body.upload;
    const lost = connect(rowhouse, 'PATCH', `/uploads/${id}`, { 'upload-offset': '0' });
    lost.sending.write('12345');
    await until('a part has arrived', async () => (await offsetOf(id)) === 5);
    const next = await send(id, 5, '67890');
    expect([next.status, next.body.upload.offset]).toEqual([200, 10]);
    expect((await lost.answer).status).toBe(409);
    await rowhouse.call('DELETE', `${api}/uploads/${id}`);
  });

  it('can be sent to several processes, one at a time', async () => {
    const second = await openSecondProcess(rowhouse, { imports });
    try {
      const { id } = (await begin()).body.upload;
      expect((await send(id, 0, dump.slice(0, 100))).status).toBe(200);
      expect((await send(id, 100, dump.slice(100), second)).body.upload.offset).toBe(dump.length);
      // As another living process leaves it, while it writes.
      const [file = ''] = readdirSync(uploadsFolder);
      const held = path.join(uploadsFolder, `${file}.${process.ppid}-00000000`);
      renameSync(path.join(uploadsFolder, file), held);
      expect(codes(await send(id, dump.length, 'x'))).toEqual([409, 'conflict']);
      expect(codes(await start(id, dump.length))).toEqual([409, 'conflict']);
      expect(await offsetOf(id)).toBe(dump.length);
      // And a process that died: the next one takes it over.
      const dead = path.join(uploadsFolder, `${file}.${2 ** 22 + 1}-00000000`);
      renameSync(held, dead);
      expect(codes(await send(id, 0, 'x', second))).toEqual([409, 'conflict']);
      // In a container, the next process has the same id.
      renameSync(path.join(uploadsFolder, file), path.join(uploadsFolder, `${file}.${process.pid}-00000000`));
      expect((await send(id, dump.length, '-- more\n', second)).status).toBe(200);
      const { status, body } = await start(id, dump.length + 8);
      expect(status).toBe(202);
      expect((await jobEnd(rowhouse, body.job.id)).status).toBe('done');
    } finally {
      await second.stop();
    }
  });

  it('belongs to its account, and is found by no other name', async () => {
    const { id } = (await begin()).body.upload;
    const { key } = await rowhouse.project('Not an account');
    for (const [method, target] of [
      ['POST', '/uploads'],
      ['GET', '/uploads'],
      ['GET', `/uploads/${id}`],
      ['DELETE', `/uploads/${id}`],
    ] as const)
      expect(
        codes(await rowhouse.call(method, api + target, { key, ...(method === 'POST' && { body: {} }) })),
      ).toEqual([403, 'forbidden']);
    const [file = ''] = readdirSync(uploadsFolder);
    const stranger = `${'0'.repeat(32)}.${id.replace(/.$/, id.endsWith('0') ? '1' : '0')}`;
    writeFileSync(path.join(uploadsFolder, stranger), 'of another account');
    for (const bad of [
      ...[file, `..%2F${id}`, `${id}.1-00000000`, stranger, stranger.slice(33), `9${id}`, '__proto__'],
    ])
      for (const method of ['GET', 'PATCH', 'DELETE'])
        expect([
          bad,
          ...codes(
            method === 'PATCH'
              ? await send(bad, 0, 'x')
              : await rowhouse.call(method, `${api}/uploads/${bad}`),
          ),
        ]).toEqual([bad, 404, 'upload_not_found']);
    expect((await rowhouse.call('GET', `${api}/uploads`)).body.uploads).toMatchObject([{ id, offset: 0 }]);
    rmSync(path.join(uploadsFolder, stranger));
    expect((await rowhouse.call('DELETE', `${api}/uploads/${id}`)).body).toEqual({ ok: true });
    expect(readdirSync(uploadsFolder)).toEqual([]);
  });

  it('keeps to its size, its number and its form', async () => {
    expect(codes(await begin({ bytes: 69 * 1024 * 1024, limit_mb: 1 }))).toEqual([413, 'payload_too_large']);
    const { id } = (await begin({ bytes: 10 })).body.upload;
    expect(codes(await send(id, 0, '12345678901'))).toEqual([413, 'payload_too_large']);
    for (const offset of ['', '-1', '1e3', '01', ' 1 2'])
      expect([offset, ...codes(await send(id, offset, 'x'))]).toEqual([offset, 400, 'invalid_request']);
    expect(
      codes(
        await rowhouse.call('PATCH', `${api}/uploads/${id}`, { body: {}, headers: { 'upload-offset': '0' } }),
      ),
    ).toEqual([415, 'unsupported_media_type']);
    for (const body of [{ name: 'None' }, { name: 'Both', from: 'postgres://x/y', upload: { id, bytes: 1 } }])
      expect(codes(await rowhouse.call('POST', '/projects/import', { body }))).toEqual([
        400,
        'invalid_request',
      ]);
    await begin();
    const last = (await begin()).body.upload;
    expect(codes(await begin())).toEqual([429, 'rate_limited']);
    // One that has not grown for a day makes room.
    const file = readdirSync(uploadsFolder).find((name) => name.endsWith(last.id)) ?? '';
    utimesSync(path.join(uploadsFolder, file), new Date(0), new Date(Date.now() - 25 * 3600_000));
    const { status, body } = await begin();
    expect([status, await offsetOf(last.id), await offsetOf(body.upload.id)]).toEqual([201, undefined, 0]);
    // Requests at the same time cannot begin more than one after the other.
    const { body: listed } = await rowhouse.call('GET', `${api}/uploads`);
    for (const { id } of listed.uploads) await rowhouse.call('DELETE', `${api}/uploads/${id}`);
    const begun = await Promise.all(Array.from({ length: 12 }, () => begin()));
    expect(new Set(begun.map(({ status }) => status))).toContain(429);
    expect((await rowhouse.call('GET', `${api}/uploads`)).body.uploads.length).toBeLessThanOrEqual(3);
    expect(readdirSync(uploadsFolder).length).toBeLessThanOrEqual(3);
  });
});
