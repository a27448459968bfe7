// One import. After an error, the same file goes on where it stopped. Leaving the form, or another file, ends the upload.
import type { ImportFrom, ImportResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { isAbort } from '../api/error.ts';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { createUpload, deleteUpload, sendParts } from '../api/upload-parts.ts';

type Wanted = Pick<ImportFrom, 'name' | 'limit_mb' | 'slug'>;

export function useImport() {
  const client = useQueryClient();
  const [sent, setSent] = useState<number | null>(null);
  const running = useRef<AbortController | null>(null);
  const uploadId = useRef<string | null>(null);
  const { once } = useIdempotencyKey();
  const forget = () => {
    running.current?.abort();
    if (uploadId.current) void deleteUpload(uploadId.current).catch(() => {});
    uploadId.current = null;
  };
  const latest = useRef(forget);
  useEffect(() => () => latest.current(), []);
  const start = useMutation({
    mutationFn: async ({ wanted, from }: { wanted: Wanted; from: File | string }) => {
      const body: ImportFrom =
        typeof from === 'string' ? { ...wanted, from } : { ...wanted, upload: await sendFile(wanted, from) };
      const started = await once((options) => api.post<ImportResponse>('projects/import', body, options));
      uploadId.current = null;
      return started;
    },
    onSuccess: () => client.invalidateQueries({ queryKey: ['projects'] }),
    onError: () => setSent(null),
  });
  const sendFile = async ({ limit_mb: limitMb = 512 }: Wanted, file: File) => {
    const controller = new AbortController();
    running.current = controller;
    setSent(0);
    uploadId.current ??= await createUpload(file, limitMb);
    const id = uploadId.current;
    if (controller.signal.aborted) forget();
    await sendParts({ id, file, signal: controller.signal, onProgress: setSent });
    return { id, bytes: file.size };
  };
  return {
    send: (wanted: Wanted, from: File | string | null) => {
      if (from !== null) start.mutate({ wanted, from });
    },
    /** Another file was chosen. */
    restart: forget,
    sent,
    started: start.data ?? null,
    isSending: start.isPending,
    error: isAbort(start.error) ? null : start.error,
  };
}
