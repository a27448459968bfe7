// Backups in an S3 bucket. Small objects take one request, larger ones a multipart upload, which S3 shows only when it is
// complete. If-None-Match refuses to replace an object.
import { createHash } from 'node:crypto';
import type { S3Location } from '../../settings/backup-url.ts';
import { openBatchDelete } from './s3-delete.ts';
import { openDownload } from './s3-download.ts';
import { accept, refusal } from './s3-refusal.ts';
import { elementOf, elementsOf, openS3Client, type S3Client } from './s3-request.ts';
import { beginUpload, onlyNew, type Upload } from './s3-upload.ts';
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
          upload ??= await beginUpload({ client, place }, name, signal);
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
    source: async () => ({ location, reserveBytes: 0, repository: null }),
    place,
    prepare: async () => {},
    check: async () => {},
    put,
    get: async (name, signal) => {
      checkName(name);
      return openDownload({ client, place }, name, signal);
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
      client,
      place,
      deleteOne,
      keyOf: prefixed,
      refusal: (answer, name) => refusal(answer, place, name),
    }),
    removeUnfinished: (prefix, before, signal) =>
      abortUploads(client, place, { root: prefixed(''), prefix: prefixed(prefix) }, before, signal),
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

/** The answers to one list, page by page. */
async function* listPages(
  client: S3Client,
  place: string,
  parameters: { prefix: string; delimiter?: string },
  signal?: AbortSignal,
): AsyncGenerator<string> {
  let token: string | null = null;
  const passed = new Set<string>();
  do {
    const query = { 'list-type': '2', ...parameters, ...(token !== null && { 'continuation-token': token }) };
    const answer = await client.send({ method: 'GET', name: null, query, signal });
    if (answer.status !== 200) throw await refusal(answer, place, parameters.prefix);
    const xml = await answer.text();
    yield xml;
    token = elementOf(xml, 'NextContinuationToken');
    // Not an end: what is missing in a list counts as not stored.
    if (token !== null && passed.has(token))
      throw new StorageError('unavailable', `${place} repeats a page of its list.`);
    if (token !== null) passed.add(token);
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
  { root, prefix }: { root: string; prefix: string },
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
    const name = key.slice(root.length);
    await client.send({ method: 'DELETE', name, query: { uploadId }, signal });
    aborted++;
  }
  return aborted;
}
