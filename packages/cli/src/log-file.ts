// The end of a log file that is replaced when it is full, and what is added to it from then on.
import { closeSync, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

const lookMs = 250;
const pieceBytes = 64 * 1024;

export type LogFile = {
  /** The whole lines of the file, after those of the part that was renamed last. */
  lines: string[];
  /** Each line after `lines`. It follows the name: a new file under it is read from its beginning. */
  follow(signal: AbortSignal): AsyncGenerator<string>;
  close(): void;
};

/** Throws if the file cannot be read. */
export function openLogFile(file: string): LogFile {
  let descriptor = openSync(file, 'r');
  let position = 0;
  let rest = Buffer.alloc(0);
  const piece = Buffer.alloc(pieceBytes);
  const readMore = function* () {
    if (fstatSync(descriptor).size < position) position = 0;
    for (let count = -1; count !== 0; ) {
      count = readSync(descriptor, piece, 0, pieceBytes, position);
      position += count;
      rest = Buffer.concat([rest, piece.subarray(0, count)]);
      for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
        yield rest.subarray(0, end).toString();
        rest = rest.subarray(end + 1);
      }
    }
  };
  return {
    lines: [...readRenamed(file, fstatSync(descriptor).ino), ...readMore()].filter((line) => line !== ''),
    follow: async function* (signal) {
      while (!signal.aborted) {
        yield* readMore();
        const now = statSync(file, { throwIfNoEntry: false });
        if (now && now.ino !== fstatSync(descriptor).ino) {
          // What was written between the last look and the renaming.
          yield* readMore();
          const replaced = descriptor;
          descriptor = openSync(file, 'r');
          closeSync(replaced);
          [position, rest] = [0, Buffer.alloc(0)];
        } else await sleep(lookMs, undefined, { signal }).catch(() => {});
      }
    },
    close: () => closeSync(descriptor),
  };
}

/** Nothing if that is the file itself, renamed meanwhile. */
function readRenamed(file: string, openedInode: number): string[] {
  const renamed = statSync(`${file}.1`, { throwIfNoEntry: false });
  return renamed && renamed.ino !== openedInode ? readFileSync(`${file}.1`, 'utf8').split('\n') : [];
}
