// Backups to a real S3 server, with what can go wrong there.

import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { backupKeyOf, DecryptionError, decrypt, encrypt } from '../../src/backups/repository/encryption.ts';
import { guardStorage } from '../../src/backups/storage/guard.ts';
import { writeMarker } from '../../src/backups/storage/marker.ts';
import { openS3 } from '../../src/backups/storage/s3.ts';
import type { S3Location } from '../../src/settings/backup-url.ts';
import { freePort } from '../support/process.ts';
import { openS3Server, type S3Server, s3SkipReason } from './s3-server.ts';
import { contentOf, namesIn, problemOf, storageCases } from './storage-cases.ts';

const reason = await s3SkipReason();
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-s3-'));
let server: S3Server;
let count = 0;
const newStorage = (more: Partial<S3Location> = {}) => {
  const storage = openS3({ ...server.location, prefix: `test/${count++}`, ...more });
  onTestFinished(() => storage.close());
  return storage;
};

describe.skipIf(reason !== null)('backups in S3', () => {
  beforeAll(async () => {
    server = await openS3Server(folder);
  });
  afterAll(async () => {
    await server?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  storageCases(() => newStorage());

  it('stores and lists nothing in a bucket that was emptied, or that is another repository', async () => {
    const storage = newStorage();
    const id = await writeMarker(storage);
    // The second one is late: the first one counts.
    expect(await writeMarker(storage)).toBe(id);
    const guarded = () => guardStorage(storage, async () => id);
    await guarded().put('a/1', [Buffer.from('x')]);
    expect(await namesIn(guarded())).toEqual(['a/1', 'repository']);
    await storage.deleteAll(await namesIn(storage));
    const problems = async () => [
      await problemOf(guarded().put('a/2', [Buffer.from('x')])),
      await problemOf(namesIn(guarded())),
      await problemOf(guarded().deleteAll(['a/1'])),
      await problemOf(guarded().removeUnfinished('', new Date())),
      await problemOf(guarded().check()),
    ];
    expect(new Set(await problems())).toEqual(new Set(['unmarked']));
    expect(await namesIn(storage)).toEqual([]);
    await writeMarker(storage);
    expect(new Set(await problems())).toEqual(new Set(['foreign']));
    expect(await namesIn(storage)).toEqual(['repository']);
  });

  it('completes no large upload if the bucket is emptied meanwhile', async () => {
    const storage = newStorage();
    const id = await writeMarker(storage);
    async function* content() {
      yield randomBytes(20 * 1024 * 1024);
      await storage.delete('repository');
      // What was seen counts for two seconds.
      await new Promise((resolve) => setTimeout(resolve, 2_500));
      yield Buffer.from('end');
    }
    expect(await problemOf(guardStorage(storage, async () => id).put('large', content()))).toBe('unmarked');
    expect(await namesIn(storage)).toEqual([]);
  });

  it('lists more objects than fit into one answer', async () => {
    const storage = newStorage();
    const names = Array.from({ length: 1_050 }, (_, index) => `many/${String(index).padStart(5, '0')}`);
    for (let at = 0; at < names.length; at += 25) {
      await Promise.all(names.slice(at, at + 25).map((name) => storage.put(name, [Buffer.from('x')])));
    }
    expect(await namesIn(storage, 'many/')).toEqual(names);
    // And deletes more than fit into one request.
    expect(await storage.deleteAll(names.slice(1))).toBe(1_049);
    expect(await namesIn(storage, 'many/')).toEqual(names.slice(0, 1));
  });

  it('deletes one by one where the service does not know better, and reports what it refuses', async () => {
    const requests: string[] = [];
    let many = { status: 501, text: '<Error><Code>NotImplemented</Code></Error>' };
    const port = await freePort();
    const service = createServer((request, response) => {
      requests.push(`${request.method} ${request.url}`);
      request.resume();
      request.on('end', () => {
        const isMany = request.method === 'POST';
        response.writeHead(isMany ? many.status : 204).end(isMany ? many.text : '');
      });
    }).listen(port, '127.0.0.1');
    onTestFinished(() => void service.close());
    const endpoint = `http://127.0.0.1:${port}`;
    const storage = newStorage({ endpoint, prefix: '' });
    expect(await storage.deleteAll(['a', 'b'])).toBe(2);
    expect(await storage.deleteAll(['c', 'd'])).toBe(2);
    const one = (name: string) => `DELETE /backups/${name}`;
    expect(requests).toEqual(['POST /backups?delete=', one('a'), one('b'), one('c'), one('d')]);
    const failed = '<Error><Key>b</Key><Code>AccessDenied</Code></Error>';
    many = { status: 200, text: `<DeleteResult>${failed}</DeleteResult>` };
    expect(await problemOf(newStorage({ endpoint }).deleteAll(['a', 'b']))).toBe('denied');
  });

  it('works with a bucket root as well as with a prefix, and keeps to its prefix', async () => {
    const [one, other, root] = [newStorage(), newStorage(), newStorage({ prefix: '' })];
    await one.put('same', [Buffer.from('one')]);
    await other.put('same', [Buffer.from('other')]);
    await root.put('at-the-root', [Buffer.from('root')]);
    expect((await contentOf(await one.get('same'))).toString()).toBe('one');
    expect(await namesIn(other)).toEqual(['same']);
    expect(await namesIn(root, 'at')).toEqual(['at-the-root']);
  });

  it('says that a key is wrong, and that a bucket does not exist, without retrying for long', async () => {
    const credentials = { ...server.location.credentials, secretAccessKey: 'wrong' };
    for (const storage of [newStorage({ credentials }), newStorage({ bucket: 'no-such-bucket' })]) {
      expect(await problemOf(storage.put('x', [Buffer.from('x')]))).toBe('denied');
      expect(await problemOf(namesIn(storage))).toBe('denied');
    }
    const unknown = newStorage({ credentials: { ...credentials, accessKeyId: 'UNKNOWN' } });
    expect(await problemOf(unknown.get('x').then(contentOf))).toBe('denied');
  });

  it('finds a bit that flipped in the bucket', async () => {
    const storage = newStorage();
    const key = backupKeyOf(randomBytes(32));
    const content = randomBytes(300_000);
    await storage.put('object', encrypt(key, 'object', [content]));
    const file = path.join(server.bucketFolder, 'test', String(count - 1), 'object');
    const read = async () => contentOf(decrypt(key, 'object', await storage.get('object')));
    expect((await read()).equals(content)).toBe(true);
    const bytes = readFileSync(file);
    bytes[150_000] = (bytes[150_000] as number) ^ 1;
    writeFileSync(file, bytes);
    await expect(read()).rejects.toBeInstanceOf(DecryptionError);
  });

  it('retries while the service is busy or away, and gives up with a clear message', async () => {
    let answers = [503, 500, 429];
    const port = await freePort();
    const proxy = createServer((request, response) => {
      const status = answers.shift();
      request.resume();
      request.on('end', () => response.writeHead(status ?? 200, { etag: '"x"' }).end());
    }).listen(port, '127.0.0.1');
    onTestFinished(() => void proxy.close());
    const storage = newStorage({ endpoint: `http://127.0.0.1:${port}` });
    await storage.put('x', [Buffer.from('x')]);
    expect(answers).toEqual([]);
    answers = [503, 503, 503, 503, 503, 503];
    expect(await problemOf(storage.put('x', [Buffer.from('x')]))).toBe('unavailable');
    expect(answers).toEqual([503]);
    const nowhere = newStorage({ endpoint: `http://127.0.0.1:${await freePort()}` });
    expect(await problemOf(nowhere.put('x', [Buffer.from('x')]))).toBe('unavailable');
  });

  it('an upload during which the service dies leaves nothing, and the next one succeeds', async () => {
    const storage = newStorage();
    const large = randomBytes(24 * 1024 * 1024);
    async function* content() {
      yield large.subarray(0, large.length / 3);
      yield large.subarray(large.length / 3, (large.length / 3) * 2);
      await server.stop('SIGKILL');
      yield large.subarray((large.length / 3) * 2);
    }
    expect(await problemOf(storage.put('killed', content()))).toBe('unavailable');
    await server.start();
    expect(await namesIn(storage)).toEqual([]);
    await storage.put('killed', [large]);
    expect((await contentOf(await storage.get('killed'))).equals(large)).toBe(true);
    // The upload that was never completed takes space until it is removed.
    expect(await storage.removeUnfinished('', new Date(Date.now() - 3_600_000))).toBe(0);
    expect(await storage.removeUnfinished('other/', new Date(Date.now() + 60_000))).toBe(0);
    expect(await storage.removeUnfinished('', new Date(Date.now() + 60_000))).toBe(1);
    expect(readdirSync(server.bucketFolder).length).toBeGreaterThan(0);
  });
});
