// Rows as a file. The service writes the file and streams it; the page only passes it on, so its size does not matter.
import { type Options, open } from './request.ts';

export const formats = {
  csv: { type: 'text/csv', extension: 'csv', label: 'CSV' },
  json: { type: 'application/x-ndjson', extension: 'jsonl', label: 'JSON lines' },
} as const;
export type Format = keyof typeof formats;

/** Pieces up to this size stay in the page; the browser keeps the rest, on its disk if it is much. */
const pieceBytes = 1 << 20;

type Wanted = Omit<Options, 'accept'> & {
  method: 'GET' | 'POST';
  path: string;
  accept: string;
  fileName: string;
  onProgress?: (bytes: number) => void;
};

/** Nothing is saved if the answer breaks off. */
export async function download({ method, path, fileName, onProgress, ...options }: Wanted): Promise<number> {
  const response = await open(method, path, options);
  const parts: Blob[] = [];
  let piece: BlobPart[] = [];
  let size = 0;
  let total = 0;
  const reader = response.body?.getReader();
  for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
    piece.push(read.value);
    size += read.value.byteLength;
    total += read.value.byteLength;
    onProgress?.(total);
    if (size >= pieceBytes) {
      parts.push(new Blob(piece));
      piece = [];
      size = 0;
    }
  }
  save(new Blob([...parts, ...piece], { type: options.accept }), fileName);
  return total;
}

export function save(file: Blob, fileName: string) {
  const url = URL.createObjectURL(file);
  const link = document.createElement('a');
  link.href = url;
  link.download = fileName;
  link.click();
  // The browser has taken the file when the click returns, but some read it later.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A name of a project or a table can contain what a file name cannot. */
export function fileNameOf(...parts: string[]): string {
  return parts.map((part) => part.replace(/[^\p{L}\p{N}._-]+/gu, '-').replace(/^\.+/, '')).join('-');
}
