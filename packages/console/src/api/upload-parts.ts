// Sends a large file in parts. If the connection breaks or the service restarts, it goes on after the last byte that arrived.
import type { UploadResponse } from '@rowhouse/api';
import { ApiError } from './error.ts';
import { api, path } from './request.ts';
import { upload } from './upload.ts';

const partBytes = 8 * 1_048_576;
const pauseMs = 1_000;
const pauseMaxMs = 15_000;
/** Without a further byte for so long, the upload fails. It can be continued. */
const patienceMs = 600_000;

type Parts = { id: string; file: File; signal: AbortSignal; onProgress: (sent: number) => void };

export async function createUpload(file: File, limitMb: number): Promise<string> {
  const answer = await api.post<UploadResponse>('uploads', { bytes: file.size, limit_mb: limitMb });
  return answer.upload.id;
}

export const deleteUpload = (id: string) => api.delete(path`uploads/${id}`);

/** From the first byte that the service does not have yet to the last one. */
export async function sendParts({ id, file, signal, onProgress }: Parts): Promise<void> {
  let offset = await readOffset(id, signal);
  let since = performance.now();
  for (let failures = 0; offset < file.size; ) {
    const start = offset;
    onProgress(start);
    try {
      const { upload: now } = await upload<UploadResponse>({
        method: 'PATCH',
        path: path`uploads/${id}`,
        headers: { 'upload-offset': String(start) },
        file: file.slice(start, start + partBytes),
        contentType: 'application/octet-stream',
        signal,
        onProgress: (sent) => onProgress(start + sent),
      });
      offset = now.offset;
    } catch (error) {
      await checkReadable(file);
      if (!isTemporary(error) || performance.now() - since > patienceMs) throw error;
      await pause(Math.min(pauseMaxMs, pauseMs * 2 ** failures), signal);
      failures += 1;
      offset = await readOffset(id, signal).catch((problem) => {
        if (isTemporary(problem)) return start;
        throw problem;
      });
    }
    if (offset === start) continue;
    failures = 0;
    since = performance.now();
  }
  onProgress(file.size);
}

async function readOffset(id: string, signal: AbortSignal): Promise<number> {
  return (await api.get<UploadResponse>(path`uploads/${id}`, undefined, signal)).upload.offset;
}

/** The browser refuses to read a file that was changed or removed since it was chosen. To send it again would not help. */
async function checkReadable(file: File): Promise<void> {
  await file.slice(0, 1).arrayBuffer();
}

/** 409: another request is still writing, or the service has another number of bytes. */
export function isTemporary(error: unknown): boolean {
  return error instanceof ApiError && [0, 408, 409, 429, 502, 503, 504].includes(error.status);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
