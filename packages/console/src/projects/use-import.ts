// One import. After an error, the same file goes on where it stopped. Leaving the form, or another file, ends the upload.
// A file that has arrived as a whole is not asked for again: the service drops it when the job starts, and that answer may be
// lost.
import type { ImportFrom, ImportResponse } from '@rowhouse/api';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { ApiError, isAbort } from '../api/error.ts';
import { useIdempotencyKey } from '../api/idempotency-key.ts';
import { api } from '../api/request.ts';
import { createUpload, deleteUpload, sendParts } from '../api/upload-parts.ts';
import { useShownOnce } from '../session/shown-once.tsx';

type Wanted = Pick<ImportFrom, 'name' | 'limit_mb' | 'slug'>;

export function useImport(
  onClose: () => void,
  show: (started: ImportResponse, onClose: () => void) => ReactNode,
) {
  const client = useQueryClient();
  const [sent, setSent] = useState<number | null>(null);
  const running = useRef<AbortController | null>(null);
  const uploaded = useRef<{ id: string; isWhole: boolean } | null>(null);
  const { once } = useIdempotencyKey();
  const shownOnce = useShownOnce(onClose);
  const forget = () => {
    running.current?.abort();
    if (uploaded.current) void deleteUpload(uploaded.current.id).catch(() => {});
    uploaded.current = null;
  };
  const latest = useRef(forget);
  useEffect(() => () => latest.current(), []);
  const start = useMutation({
    mutationFn: async ({ wanted, from }: { wanted: Wanted; from: File | string }) => {
      const body: ImportFrom =
        typeof from === 'string' ? { ...wanted, from } : { ...wanted, upload: await sendFile(wanted, from) };
      try {
        const send = () => once((options) => api.post<ImportResponse>('projects/import', body, options));
        return await shownOnce(send, show);
      } catch (error) {
        // The upload expired before the import started. The next attempt sends the file again.
        if (isGone(error)) uploaded.current = null;
        throw error;
      }
    },
    onSuccess: () => {
      uploaded.current = null;
      return client.invalidateQueries({ queryKey: ['projects'] });
    },
    onError: () => setSent(null),
  });
  const sendFile = async (wanted: Wanted, file: File): Promise<{ id: string; bytes: number }> => {
    const controller = new AbortController();
    running.current = controller;
    const isResumed = uploaded.current !== null;
    setSent(uploaded.current?.isWhole ? file.size : 0);
    uploaded.current ??= { id: await createUpload(file, wanted.limit_mb ?? 512), isWhole: false };
    const current = uploaded.current;
    if (controller.signal.aborted) forget();
    if (!current.isWhole) {
      try {
        await sendParts({ id: current.id, file, signal: controller.signal, onProgress: setSent });
      } catch (error) {
        if (!isResumed || !isGone(error)) throw error;
        uploaded.current = null;
        return sendFile(wanted, file);
      }
      current.isWhole = true;
    }
    return { id: current.id, bytes: file.size };
  };
  return {
    send: (wanted: Wanted, from: File | string | null) => {
      if (from !== null) start.mutate({ wanted, from });
    },
    /** Another file was chosen. */
    restart: forget,
    sent,
    isSending: start.isPending,
    error: isAbort(start.error) ? null : start.error,
  };
}

const isGone = (error: unknown) => error instanceof ApiError && error.status === 404;
