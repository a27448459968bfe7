// Sends a dump in parts. After a broken connection it continues where the service says that it stopped.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CreateUpload, ImportResponse, Upload, UploadResponse } from '@rowhouse/api';
import { type ApiOptions, callApi, sendPart } from './api.ts';
import { Failure, failure } from './failure.ts';

type Tell = (text: string | null) => void;

export type Dump = {
  /** The dump, without its first bytes. */
  from(offset: number): AsyncIterable<Buffer>;
  /** null: not known before its end. */
  bytes: number | null;
};

/** Kept in memory until the service has it. */
const partBytes = 8 * 1024 * 1024;
/** For one call of the stream that sends a part, so that progress is seen. */
const sliceBytes = 256 * 1024;
const firstPauseMs = 500;
const longestPauseMs = 15_000;
/** Without a byte that arrives. */
const giveUpMs = 10 * 60_000;

type Course = {
  /** An earlier upload, which is continued. */
  id: string | undefined;
  onBegun: (upload: Upload) => void;
  tell: Tell;
};

/** Returns the upload with its last offset: the size of the dump. */
export async function uploadDump(
  options: ApiOptions,
  dump: Dump,
  input: CreateUpload,
  { id, onBegun, tell }: Course,
): Promise<Upload> {
  const { upload: begun } = id
    ? await callApi<UploadResponse>(options, 'GET', ['uploads', id])
    : await callApi<UploadResponse>(options, 'POST', ['uploads'], { body: input });
  let upload = begun;
  onBegun(begun);
  if (dump.bytes !== null && upload.offset > dump.bytes)
    throw failure('invalid_request', `The upload has ${upload.offset} bytes, and the file is smaller.`);
  const showSent = (offset: number) =>
    tell(
      dump.bytes
        ? `sent ${Math.floor((100 * offset) / dump.bytes)} %`
        : `sent ${Math.floor(offset / 1e6)} MB`,
    );
  for await (const part of inParts(dump.from(upload.offset))) upload = await send(part);
  return upload;

  async function send(part: Buffer): Promise<Upload> {
    const start = upload.offset;
    const end = start + part.length;
    let at = start;
    return persist(tell, async (isRepeat, onProgress) => {
      if (isRepeat) {
        const { upload: now } = await callApi<UploadResponse>(options, 'GET', ['uploads', upload.id]);
        if (now.offset < start || now.offset > end)
          throw failure('conflict', 'Another program sends to this upload.', 'Begin a new one.');
        if (now.offset > at) onProgress();
        at = now.offset;
        if (at === end) return now;
      }
      const slices = inSlices(part.subarray(at - start), at, showSent);
      return (await sendPart<UploadResponse>(options, ['uploads', upload.id], at, slices)).upload;
    });
  }
}

/** The import of a whole upload. A repeat gets the first response, with the key. */
export async function importUpload(
  options: ApiOptions,
  input: { name: string },
  { id, offset }: Upload,
  tell: Tell,
): Promise<ImportResponse> {
  const headers = { 'idempotency-key': randomUUID() };
  const body = { ...input, upload: { id, bytes: offset } };
  return persist(tell, () =>
    callApi<ImportResponse>(options, 'POST', ['projects', 'import'], { body, headers }),
  );
}

/** Repeats `act` after failures that pass, with growing pauses. `onProgress`: it is worth going on. */
async function persist<T>(
  tell: Tell,
  act: (isRepeat: boolean, onProgress: () => void) => Promise<T>,
): Promise<T> {
  let pauseMs = firstPauseMs;
  let giveUpAt = Date.now() + giveUpMs;
  const onProgress = () => {
    pauseMs = firstPauseMs;
    giveUpAt = Date.now() + giveUpMs;
  };
  for (let isRepeat = false; ; isRepeat = true) {
    try {
      return await act(isRepeat, onProgress);
    } catch (error) {
      if (!canPass(error) || Date.now() > giveUpAt) throw error;
      tell(`${(error as Failure).message} Trying again in ${Math.ceil(pauseMs / 1000)} s.`);
      await sleep(pauseMs);
      pauseMs = Math.min(longestPauseMs, 2 * pauseMs);
    }
  }
}

/** `not_rowhouse`: a proxy answers while the service restarts. */
const passing = new Set([
  ...['no_answer', 'not_rowhouse', 'unavailable', 'overloaded', 'rate_limited', 'request_timeout'],
]);

function canPass(error: unknown): boolean {
  if (!(error instanceof Failure)) return false;
  const { code, details } = error.body.error;
  return (
    passing.has(code) || (code === 'conflict' && (details as { retryable?: unknown })?.retryable === true)
  );
}

async function* inParts(pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let waiting: Buffer[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    waiting.push(piece);
    bytes += piece.length;
    if (bytes < partBytes) continue;
    yield Buffer.concat(waiting);
    [waiting, bytes] = [[], 0];
  }
  if (bytes > 0) yield Buffer.concat(waiting);
}

async function* inSlices(part: Buffer, offset: number, showSent: (offset: number) => void) {
  for (let at = 0; at < part.length; at += sliceBytes) {
    showSent(offset + at);
    yield part.subarray(at, at + sliceBytes);
  }
}
