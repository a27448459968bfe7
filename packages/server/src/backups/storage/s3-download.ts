// A download from S3. If it breaks off, the rest of the same object is asked for: one broken connection does not end a restore
// that has been running for an hour.
import { refusal } from './s3-refusal.ts';
import type { S3Client, S3Response } from './s3-request.ts';
import { StorageError } from './storage.ts';

type Bucket = { client: S3Client; place: string };

/** In a row, without a byte in between. Each of them is repeated by the client, with pauses. */
const maxResumes = 5;

export async function openDownload(
  bucket: Bucket,
  name: string,
  signal?: AbortSignal,
): Promise<AsyncIterable<Uint8Array>> {
  const answer = await bucket.client.send({ method: 'GET', name, signal });
  if (answer.status !== 200) throw await refusal(answer, bucket.place, name);
  return readBody(bucket, name, answer, signal);
}

async function* readBody(
  { client, place }: Bucket,
  name: string,
  first: S3Response,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const { etag } = first.response.headers;
  let { response } = first;
  let received = 0;
  for (let resumes = 0; ; ) {
    try {
      for await (const piece of response) {
        received += piece.length;
        resumes = 0;
        yield piece;
      }
      return;
    } catch (error) {
      signal?.throwIfAborted();
      if (etag === undefined || ++resumes > maxResumes)
        throw new StorageError('unavailable', `${place} broke off: ${(error as Error).message}`, {
          cause: error,
        });
    } finally {
      response.destroy();
    }
    // Only of the object whose beginning was read.
    const headers = { Range: `bytes=${received}-`, 'If-Match': etag };
    const rest = await client.send({ method: 'GET', name, headers, signal });
    if (rest.status !== 206) {
      rest.response.destroy();
      throw rest.status === 200
        ? new StorageError('unavailable', `${place} broke off, and does not send the rest of ${name}.`)
        : await refusal(rest, place, name);
    }
    ({ response } = rest);
  }
}
