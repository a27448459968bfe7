// Connections that break, and services that misbehave: what a well-behaved S3 server does not show.
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { openS3 } from './s3.ts';

type Handle = (request: IncomingMessage, response: ServerResponse, url: URL) => void;

/** A service that answers as `handle` says. */
async function startService(handle: Handle) {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    request.resume();
    requests.push(`${request.method} ${request.headers.range ?? ''}`.trim());
    request.once('end', () => handle(request, response, new URL(request.url ?? '', 'http://localhost')));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const storage = openS3({
    kind: 's3',
    bucket: 'bucket',
    prefix: '',
    region: 'r',
    endpoint: `http://127.0.0.1:${port}`,
    credentials: { accessKeyId: 'id', secretAccessKey: 'secret', sessionToken: null },
  });
  onTestFinished(async () => {
    storage.close();
    server.closeAllConnections();
    server.close();
  });
  return { storage, requests };
}

async function readAll(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

/** Sends an object from the offset that is asked for, and cuts the connection after `cutAfter` bytes. */
function sendObject(content: Buffer, cutAfter: number | null, status?: number): Handle {
  return (request, response) => {
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
    const rest = content.subarray(from);
    const length = { 'content-length': rest.length, etag: '"one"' };
    response.writeHead(status ?? (request.headers.range ? 206 : 200), length);
    if (cutAfter === null || cutAfter >= rest.length) response.end(rest);
    else response.write(rest.subarray(0, cutAfter), () => response.destroy());
  };
}

it('a download that breaks off is continued, and is whole', async () => {
  const content = randomBytes(1_000_000);
  const { storage, requests } = await startService(sendObject(content, 150_000));
  expect((await readAll(await storage.get('object'))).equals(content)).toBe(true);
  expect(requests.length).toBeGreaterThan(6);
  expect(new Set(requests).size).toBe(requests.length);
});

it('a download of which nothing more comes ends, and so does one whose object was exchanged', async () => {
  const content = randomBytes(1_000);
  const stuck = await startService((request, response, url) =>
    request.headers.range
      ? sendObject(content, 0)(request, response, url)
      : sendObject(content, 400)(request, response, url),
  );
  await expect(readAll(await stuck.storage.get('object'))).rejects.toMatchObject({ problem: 'unavailable' });
  expect(stuck.requests.length).toBeLessThan(50);
  const exchanged = await startService((request, response, url) => {
    if (!request.headers.range) return sendObject(content, 400)(request, response, url);
    expect(request.headers['if-match']).toBe('"one"');
    response.writeHead(412).end('<Error><Code>PreconditionFailed</Code></Error>');
  });
  await expect(readAll(await exchanged.storage.get('object'))).rejects.toThrow();
  // A service that does not know ranges sends everything again.
  const simple = await startService(sendObject(content, 400, 200));
  await expect(readAll(await simple.storage.get('object'))).rejects.toMatchObject({ problem: 'unavailable' });
});

it('a list whose pages repeat ends with an error, and is never taken for a whole one', async () => {
  const { storage, requests } = await startService((_, response, url) => {
    const token = url.searchParams.get('continuation-token') ?? 'a';
    const next = token === 'a' ? 'b' : 'a';
    response.end(
      `<ListBucketResult><NextContinuationToken>${next}</NextContinuationToken></ListBucketResult>`,
    );
  });
  const list = async () => {
    for await (const _ of storage.list(''));
  };
  await expect(list()).rejects.toThrow('repeats a page');
  await expect(storage.folders('')).rejects.toThrow('repeats a page');
  expect(requests.length).toBeLessThan(8);
});

const partTag = 'a'.repeat(32);
const hashOfTags = createHash('md5')
  .update(Buffer.from(partTag.repeat(2), 'hex'))
  .digest('hex');

/** `after`: what a repeated completion gets, once the first one has succeeded and its answer was lost. */
async function upload(after: 404 | 412, storedBytes: (sent: number) => number, etag = '') {
  let stored: number | null = null;
  let sent = 0;
  const { storage, requests } = await startService((request, response, url) => {
    if (request.method === 'HEAD') {
      response.writeHead(stored === null ? 404 : 200, { 'content-length': stored ?? 0, etag }).end();
    } else if (url.searchParams.has('uploads')) {
      response.end('<UploadId>one</UploadId>');
    } else if (url.searchParams.has('partNumber')) {
      sent += Number(request.headers['content-length']);
      response.writeHead(200, { etag: `"${partTag}"` }).end();
    } else if (request.method === 'DELETE') response.writeHead(204).end();
    else if (stored === null) {
      stored = storedBytes(sent);
      response.destroy();
    } else {
      const code = after === 404 ? 'NoSuchUpload' : 'PreconditionFailed';
      response.writeHead(after).end(`<Error><Code>${code}</Code></Error>`);
    }
  });
  const content = [Buffer.alloc(8 * 1024 * 1024, 1), Buffer.alloc(1_000, 2)];
  return { result: storage.put('large', content), requests };
}

it.each([404, 412] as const)(
  'an upload whose last answer was lost is complete if the object is there (%s)',
  async (after) => {
    const { result, requests } = await upload(after, (sent) => sent, `"${hashOfTags}-2"`);
    expect((await result).bytes).toBe(8 * 1024 * 1024 + 1_000);
    expect(requests.filter((one) => one === 'HEAD')).toHaveLength(1);
    // Another object has this name: it is not ours.
    const others: Parameters<typeof upload>[] = [
      [after, () => 77, `"${hashOfTags}-2"`],
      [after, (sent) => sent, `"${'b'.repeat(32)}-2"`],
    ];
    for (const other of others) await expect((await upload(...other)).result).rejects.toThrow();
  },
);
