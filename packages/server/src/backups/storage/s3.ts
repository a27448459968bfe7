// Backups in an S3 bucket. Small objects take one request, larger ones a multipart upload, which S3 shows only when it is
// complete. If-None-Match refuses to replace an object.
import { createHash } from 'node:crypto';
import type { S3Location } from '../../backup-url.ts';
import { openBatchDelete } from './s3-delete.ts';
import { elementOf, elementsOf, openS3Client, type S3Client, type S3Response } from './s3-request.ts';
import {
  type Content,
  checkName,
  type Storage,
  StorageError,
  type Stored,
  type StoredObject,
} from './storage.ts';

/** S3 takes 10,000 parts of at least 5 MB. Later parts are larger, so that an object can have 800 GB. */
const partBytes = 8 * 1024 * 1024;
const partsPerSize = 500;
const onlyNew = { 'If-None-Match': '*' };

export function openS3(location: S3Location): Storage {
  const client = openS3Client(location);
  const place = `s3://${location.bucket}${location.prefix && `/${location.prefix}`}`;
  const prefixed = (name: string) => (location.prefix === '' ? name : `${location.prefix}/${name}`);

  const put = async (name: string, content: Content, signal?: AbortSignal): Promise<Stored> => {
    checkName(name);
    const hash = createHash('sha256');
    let bytes = 0;
    let upload: Upload | null = null;
    try {
      let last: Buffer | null = null;
      // The last part is held back: only then is it known whether there is more than one.
      for await (const part of inParts(content)) {
        hash.update(part);
        bytes += part.length;
        if (last) {
          upload ??= await beginUpload(client, place, name, signal);
          await upload.add(last);
        }
        last = part;
      }
      if (upload) {
        if (last) await upload.add(last);
        await upload.complete();
      } else {
        const body = last ?? Buffer.alloc(0);
        const answer = await client.send({ method: 'PUT', name, body, headers: onlyNew, signal });
        await accept(answer, place, name);
      }
    } catch (error) {
      await upload?.abort();
      throw error;
    }
    return { bytes, sha256: hash.digest('hex') };
  };

  const deleteOne = async (name: string, signal?: AbortSignal): Promise<void> => {
    checkName(name);
    const answer = await client.send({ method: 'DELETE', name, signal });
    if (answer.status !== 404) await accept(answer, place, name);
  };

  return {
    kind: 's3',
    place,
    put,
    get: async (name, signal) => {
      checkName(name);
      const answer = await client.send({ method: 'GET', name, signal });
      if (answer.status !== 200) throw await refusal(answer, place, name);
      return readBody(answer, place);
    },
    list: async function* (prefix, signal) {
      for await (const xml of listPages(client, place, { prefix: prefixed(prefix) }, signal)) {
        yield* objectsIn(xml, prefixed(''));
      }
    },
    folders: async (prefix, signal) => {
      const found: string[] = [];
      const query = { prefix: prefixed(prefix), delimiter: '/' };
      for await (const xml of listPages(client, place, query, signal)) {
        for (const entry of elementsOf(xml, 'CommonPrefixes')) {
          const name = elementOf(entry, 'Prefix') ?? '';
          if (name.startsWith(query.prefix)) found.push(name.slice(query.prefix.length).replace(/\/$/, ''));
        }
      }
      return found;
    },
    delete: deleteOne,
    deleteAll: openBatchDelete({
      ...{ client, place, deleteOne, keyOf: prefixed },
      refusal: (answer, name) => refusal(answer, place, name),
    }),
    removeUnfinished: (before, signal) => abortUploads(client, place, prefixed(''), before, signal),
    close: () => client.close(),
  };
}

/** Cuts the content into parts. Yields nothing for an empty content. */
async function* inParts(content: Content): AsyncGenerator<Buffer> {
  let number = 0;
  let pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of content) {
    pieces.push(piece);
    size += piece.length;
    if (size < partBytes * (1 + Math.floor(number / partsPerSize))) continue;
    yield Buffer.concat(pieces, size);
    number++;
    pieces = [];
    size = 0;
  }
  if (size > 0) yield Buffer.concat(pieces, size);
}

type Upload = { add(part: Buffer): Promise<void>; complete(): Promise<void>; abort(): Promise<void> };

async function beginUpload(
  client: S3Client,
  place: string,
  name: string,
  signal?: AbortSignal,
): Promise<Upload> {
  const begun = await client.send({ method: 'POST', name, query: { uploads: '' }, signal });
  if (begun.status !== 200) throw await refusal(begun, place, name);
  const uploadId = elementOf(await begun.text(), 'UploadId');
  if (uploadId === null) throw new StorageError('unavailable', `${place} did not begin an upload.`);
  const tags: string[] = [];
  return {
    add: async (body) => {
      const query = { partNumber: String(tags.length + 1), uploadId };
      const answer = await client.send({ method: 'PUT', name, query, body, signal });
      await accept(answer, place, name);
      tags.push(answer.response.headers.etag ?? '');
    },
    complete: async () => {
      const parts = tags.map(
        (tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`,
      );
      const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
      const answer = await client.send({
        ...{ method: 'POST', name, query: { uploadId }, body, headers: onlyNew, signal },
      });
      if (answer.status !== 200) throw await refusal(answer, place, name);
      // S3 can answer 200 and report a failure in the body.
      const code = elementOf(await answer.text(), 'Code');
      if (code !== null) throw new StorageError('unavailable', `${place} did not complete ${name}: ${code}`);
    },
    // Without the signal: it may be what ended the upload. If this fails, removeUnfinished does it later.
    abort: async () => {
      await client.send({ method: 'DELETE', name, query: { uploadId } }).catch(() => {});
    },
  };
}

async function* readBody({ response }: S3Response, place: string): AsyncGenerator<Uint8Array> {
  try {
    for await (const piece of response) yield piece;
  } catch (error) {
    throw new StorageError('unavailable', `${place} broke off: ${(error as Error).message}`, {
      cause: error,
    });
  } finally {
    response.destroy();
  }
}

/** The answers to one list, page by page. */
async function* listPages(
  client: S3Client,
  place: string,
  parameters: { prefix: string; delimiter?: string },
  signal?: AbortSignal,
): AsyncGenerator<string> {
  let token: string | null = null;
  do {
    const query = { 'list-type': '2', ...parameters, ...(token !== null && { 'continuation-token': token }) };
    const answer = await client.send({ method: 'GET', name: null, query, signal });
    if (answer.status !== 200) throw await refusal(answer, place, parameters.prefix);
    const xml = await answer.text();
    yield xml;
    token = elementOf(xml, 'NextContinuationToken');
  } while (token !== null);
}

/** `root`: the prefix of the repository, which its names do not contain. */
function* objectsIn(xml: string, root: string): Generator<StoredObject> {
  for (const entry of elementsOf(xml, 'Contents')) {
    const key = elementOf(entry, 'Key') ?? '';
    if (!key.startsWith(root)) continue;
    const storedAt = new Date(elementOf(entry, 'LastModified') ?? 0);
    yield { name: key.slice(root.length), bytes: Number(elementOf(entry, 'Size')), storedAt };
  }
}

async function abortUploads(
  client: S3Client,
  place: string,
  prefix: string,
  before: Date,
  signal?: AbortSignal,
): Promise<number> {
  const answer = await client.send({ method: 'GET', name: null, query: { uploads: '', prefix }, signal });
  if (answer.status !== 200) throw await refusal(answer, place, prefix);
  let aborted = 0;
  for (const entry of elementsOf(await answer.text(), 'Upload')) {
    const key = elementOf(entry, 'Key') ?? '';
    const uploadId = elementOf(entry, 'UploadId') ?? '';
    const begunAt = new Date(elementOf(entry, 'Initiated') ?? Date.now());
    if (!key.startsWith(prefix) || begunAt >= before) continue;
    const name = key.slice(prefix.length);
    await client.send({ method: 'DELETE', name, query: { uploadId }, signal });
    aborted++;
  }
  return aborted;
}

/** Reads the rest of a success, so that the connection can be used again. */
async function accept(answer: S3Response, place: string, name: string): Promise<void> {
  if (answer.status < 200 || answer.status >= 300) throw await refusal(answer, place, name);
  await answer.text();
}

async function refusal(answer: S3Response, place: string, name: string): Promise<StorageError> {
  const { status, code } = answer;
  if (status === 412 || code === 'PreconditionFailed' || code === 'ConditionalRequestConflict') {
    return new StorageError('exists', `There is already an object ${name}.`);
  }
  if (code === 'NoSuchBucket') return new StorageError('denied', `The bucket of ${place} does not exist.`);
  if (status === 404 && ['NoSuchKey', ''].includes(code))
    return new StorageError('missing', `There is no object ${name}.`);
  const message = elementOf(await answer.text(), 'Message') ?? '';
  // Some services answer 404 to an unknown access key.
  if (status === 401 || status === 403 || status === 404) {
    return new StorageError(
      'denied',
      `${place} refuses the credentials: ${code || status} ${message}`.trim(),
    );
  }
  if (status === 301 || status === 307) {
    return new StorageError('denied', `${place} is in another region. Name it with region= in the URL.`);
  }
  return new StorageError('unavailable', `${place} answers ${status} ${code} ${message}`.trim());
}
