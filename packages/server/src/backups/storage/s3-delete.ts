// Deletes many objects of a bucket with one request for each thousand. Some services do not know this request: they get one
// for each object.
import { createHash } from 'node:crypto';
import { elementOf, elementsOf, type S3Client, type S3Response } from './s3-request.ts';
import { checkName, StorageError } from './storage.ts';

type Options = {
  client: S3Client;
  place: string;
  /** The key in the bucket. */
  keyOf: (name: string) => string;
  deleteOne: (name: string, signal?: AbortSignal) => Promise<void>;
  refusal: (answer: S3Response, name: string) => Promise<StorageError>;
};

/** S3 takes no more at once. */
const maxBatch = 1000;
const unknownRequest = ['NotImplemented', 'MethodNotAllowed', 'UnsupportedOperation', 'XNotImplemented'];

export function openBatchDelete({ client, place, keyOf, deleteOne, refusal }: Options) {
  let isKnown = true;

  const deleteBatch = async (names: readonly string[], signal?: AbortSignal): Promise<void> => {
    // One object costs the same either way, and the plain request is known everywhere.
    if (isKnown && names.length > 1 && (await send(names, signal))) return;
    for (const name of names) await deleteOne(name, signal);
  };

  /** false: the service does not know this request. Nothing is deleted then. */
  const send = async (names: readonly string[], signal?: AbortSignal): Promise<boolean> => {
    const objects = names.map((name) => `<Object><Key>${escapeXml(keyOf(name))}</Key></Object>`);
    const body = Buffer.from(`<Delete><Quiet>true</Quiet>${objects.join('')}</Delete>`);
    // S3 refuses this request without a checksum of its own.
    const headers = { 'Content-MD5': createHash('md5').update(body).digest('base64') };
    const request = { method: 'POST' as const, name: null, query: { delete: '' }, body, headers, signal };
    const answer = await client.send(request);
    if (answer.status === 405 || answer.status === 501 || unknownRequest.includes(answer.code)) {
      await answer.text();
      isKnown = false;
      return false;
    }
    if (answer.status !== 200) throw await refusal(answer, names[0] ?? '');
    const [failed] = elementsOf(await answer.text(), 'Error').filter(
      (entry) => elementOf(entry, 'Code') !== 'NoSuchKey',
    );
    if (failed === undefined) return true;
    const code = elementOf(failed, 'Code') ?? '';
    const text = `${place} did not delete ${elementOf(failed, 'Key')}: ${code}`;
    throw new StorageError(code === 'AccessDenied' ? 'denied' : 'unavailable', text);
  };

  return async (names: AsyncIterable<string> | Iterable<string>, signal?: AbortSignal): Promise<number> => {
    let count = 0;
    let batch: string[] = [];
    const flush = async () => {
      await deleteBatch(batch, signal);
      count += batch.length;
      batch = [];
    };
    for await (const name of names) {
      checkName(name);
      batch.push(name);
      if (batch.length === maxBatch) await flush();
    }
    await flush();
    return count;
  };
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
