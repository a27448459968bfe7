// What an S3 service says when it refuses a request, as an error of the storage.
import { elementOf, type S3Response } from './s3-request.ts';
import { StorageError } from './storage.ts';

/** Reads the rest of a success, so that the connection can be used again. */
export async function accept(answer: S3Response, place: string, name: string): Promise<void> {
  if (answer.status < 200 || answer.status >= 300) throw await refusal(answer, place, name);
  await answer.text();
}

export async function refusal(answer: S3Response, place: string, name: string): Promise<StorageError> {
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
