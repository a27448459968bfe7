// Counts the bytes that pass through a stream, and tells the progress.
import { Transform } from 'node:stream';

/** How often progress is told. */
const tellMs = 500;

/** `total`: in bytes; null: not known. */
export function counter(tell: (text: string | null) => void, total: number | null = null) {
  let bytes = 0;
  const progress = () => (total ? `${sizeOf(bytes)}, ${Math.floor((100 * bytes) / total)} %` : sizeOf(bytes));
  const timer = setInterval(() => tell(progress()), tellMs);
  const stream = new Transform({
    transform(piece: Buffer, _encoding, done) {
      bytes += piece.length;
      done(null, piece);
    },
  });
  const stop = () => {
    clearInterval(timer);
    tell(null);
  };
  return { stream, stop, bytes: () => bytes };
}

export function sizeOf(bytes: number): string {
  const mb = bytes / 1024 / 1024;
  return mb < 1 ? `${(bytes / 1024).toFixed(1)} KB` : `${mb.toFixed(1)} MB`;
}
