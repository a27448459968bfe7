// A multipart upload to S3: the object appears when it is completed, as a whole.
import { createHash } from 'node:crypto';
import { accept, refusal } from './s3-refusal.ts';
import { elementOf, type S3Client } from './s3-request.ts';
import { StorageError } from './storage.ts';

type Bucket = { client: S3Client; place: string };

/** Refuses to replace an object. */
export const onlyNew = { 'If-None-Match': '*' };

export type Upload = { add(part: Buffer): Promise<void>; complete(): Promise<void>; abort(): Promise<void> };

export async function beginUpload(
  { client, place }: Bucket,
  name: string,
  signal?: AbortSignal,
): Promise<Upload> {
  const begun = await client.send({ method: 'POST', name, query: { uploads: '' }, signal });
  if (begun.status !== 200) throw await refusal(begun, place, name);
  const uploadId = elementOf(await begun.text(), 'UploadId');
  if (uploadId === null) throw new StorageError('unavailable', `${place} did not begin an upload.`);
  const tags: string[] = [];
  let bytes = 0;
  /** Whether the object is there and is this one. */
  const isThere = async (): Promise<boolean> => {
    const { status, response } = await client.send({ method: 'HEAD', name, signal });
    response.resume();
    const { etag = '', 'content-length': length } = response.headers;
    return status === 200 && Number(length) === bytes && canBeTag(etag, tags);
  };
  return {
    add: async (body) => {
      const query = { partNumber: String(tags.length + 1), uploadId };
      const answer = await client.send({ method: 'PUT', name, query, body, signal });
      await accept(answer, place, name);
      tags.push(answer.response.headers.etag ?? '');
      bytes += body.length;
    },
    complete: async () => {
      const parts = tags.map(
        (tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`,
      );
      const body = Buffer.from(`<CompleteMultipartUpload>${parts.join('')}</CompleteMultipartUpload>`);
      const request = { method: 'POST', name, query: { uploadId }, body, headers: onlyNew, signal } as const;
      const answer = await client.send(request).catch(async (error: unknown) => {
        if (await isThere().catch(() => false)) return null;
        throw error;
      });
      // A repeat is refused if the first attempt has succeeded and its answer was lost: the upload is unknown, or the object exists.
      if (!answer || (answer.attempt > 1 && answer.status !== 200 && (await isThere()))) return;
      if (answer.status !== 200) throw await refusal(answer, place, name);
      // S3 can answer 200 and report a failure in the body.
      const text = await answer.text().catch(async (error: unknown) => {
        if (await isThere().catch(() => false)) return '';
        throw new StorageError('unavailable', `${place} broke off: ${(error as Error).message}`, {
          cause: error,
        });
      });
      const code = elementOf(text, 'Code');
      if (code !== null) throw new StorageError('unavailable', `${place} did not complete ${name}: ${code}`);
    },
    // Without the signal: it may be what ended the upload. If this fails, removeUnfinished does it later.
    abort: async () => {
      await client.send({ method: 'DELETE', name, query: { uploadId } }).catch(() => {});
    },
  };
}

/** The usual tag of an upload is a hash of the hashes of its parts. Some services have others, which tell nothing. */
function canBeTag(found: string, tags: readonly string[]): boolean {
  const parts = tags.map((tag) => /^"?([0-9a-f]{32})"?$/.exec(tag)?.[1]);
  const [, hash] = /^"?([0-9a-f]{32})-\d+"?$/.exec(found) ?? [];
  if (hash === undefined || parts.includes(undefined)) return true;
  return (
    createHash('md5')
      .update(Buffer.from(parts.join(''), 'hex'))
      .digest('hex') === hash
  );
}
