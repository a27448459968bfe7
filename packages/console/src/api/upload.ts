// Sends a file as it is. XMLHttpRequest, because fetch does not tell how much of a body has been sent.
import type { ErrorBody } from '@rowhouse/api';
import { ApiError, unreachable } from './error.ts';
import { apiBase, hooks, requestHeaders } from './request.ts';

type Upload = {
  method?: 'POST' | 'PATCH';
  path: string;
  headers?: Record<string, string>;
  file: Blob;
  contentType: string;
  signal: AbortSignal;
  onProgress: (sent: number) => void;
};

export function upload<T>({ path, file, contentType, signal, onProgress, ...rest }: Upload): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(rest.method ?? 'POST', `${apiBase}/${path}`);
    const headers = { ...requestHeaders(path), ...rest.headers };
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.setRequestHeader('content-type', contentType);
    request.responseType = 'json';
    request.upload.onprogress = ({ loaded }) => onProgress(loaded);
    request.onerror = () => reject(unreachable());
    request.onabort = () => reject(new DOMException('The import was cancelled.', 'AbortError'));
    request.onload = () => {
      const answer = request.response as (ErrorBody & T) | null;
      if (answer === null) return reject(unreachable(request.status));
      if (request.status < 300) return resolve(answer);
      const error = new ApiError(request.status, answer);
      if (error.code === 'session_required') hooks.onSessionEnded();
      reject(error);
    };
    signal.addEventListener('abort', () => request.abort());
    request.send(file);
  });
}
