// BASE_BACKUP: the files of a whole server as tar archives, then the manifest, at the pace of the reader.
import { readRow, type TextRow } from '../wire/ask.ts';
import type { Session } from '../wire/session.ts';
import { parseLsn } from './lsn.ts';
import { send, upload } from './replication.ts';

export type BaseBackupOptions = {
  label: string;
  /** Kilobytes per second. null: as fast as possible. */
  maxRateKb: number | null;
  /** The manifest of an earlier backup, for an incremental one. */
  parentManifest: Buffer | null;
};
export type BaseBackupEvent =
  /** The archive `base.tar`, or `<oid>.tar` for a tablespace. Its bytes follow. */
  | { kind: 'archive'; name: string }
  | { kind: 'data'; bytes: Buffer }
  /** The manifest's bytes follow. */
  | { kind: 'manifest' }
  /** PostgreSQL has read everything, and this is the range of WAL that makes the files consistent. */
  | { kind: 'end'; startLsn: bigint; endLsn: bigint; timeline: number }
  /** An estimate. */
  | { kind: 'size'; bytes: number };

/** Bytes that may wait for the reader before PostgreSQL is stopped. */
const waitingBytes = 4 * 1024 * 1024;

/** A reader that leaves early leaves a session of no use. */
export async function* baseBackup(
  session: Session,
  { label, maxRateKb, parentManifest }: BaseBackupOptions,
): AsyncGenerator<BaseBackupEvent> {
  if (parentManifest) await upload(session, 'UPLOAD_MANIFEST', parentManifest);
  const options = [
    `LABEL '${label.replaceAll("'", "''")}'`,
    ...["CHECKPOINT 'fast'", 'WAIT false', 'WAL false', "MANIFEST 'yes'", 'PROGRESS true'],
    ...(maxRateKb === null ? [] : [`MAX_RATE ${maxRateKb}`]),
    ...(parentManifest ? ['INCREMENTAL true'] : []),
  ];
  const queue: BaseBackupEvent[] = [];
  const rows: TextRow[] = [];
  let waiting = 0;
  let end: { error?: Error | undefined } | null = null;
  let wake = () => {};
  const push = (event: BaseBackupEvent) => {
    queue.push(event);
    wake();
  };
  send(session, `BASE_BACKUP (${options.join(', ')})`, {
    row: (bytes, start) => void rows.push(readRow(bytes, start)),
    copyData: (bytes, start, stop) => {
      const event = readEvent(bytes, start, stop);
      if (!event) return;
      if (event.kind === 'data') {
        waiting += event.bytes.length;
        if (waiting >= waitingBytes) session.pause();
      }
      push(event);
    },
    done: (error) => {
      end = { error };
      wake();
    },
  });
  let isSized = false;
  try {
    for (;;) {
      const event = queue.shift();
      if (event) {
        if (!isSized) {
          isSized = true;
          yield { kind: 'size', bytes: estimate(rows) };
        }
        yield event;
        if (event.kind === 'data') {
          waiting -= event.bytes.length;
          if (waiting < waitingBytes) session.resume();
        }
      } else if (end) {
        const { error } = end as { error?: Error };
        if (error) throw error;
        yield endOf(rows);
        return;
      } else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  } finally {
    if (!end) session.destroy();
  }
}

function readEvent(bytes: Buffer, start: number, end: number): BaseBackupEvent | null {
  switch (bytes[start]) {
    case 110: {
      // A new archive: its name, then the place of a tablespace.
      const name = bytes.toString('utf8', start + 1, bytes.indexOf(0, start + 1));
      return { kind: 'archive', name };
    }
    case 109:
      return { kind: 'manifest' };
    case 100:
      // A copy: the next read overwrites this memory.
      return { kind: 'data', bytes: Buffer.from(bytes.subarray(start + 1, end)) };
    default:
      // Progress, which `data` tells as well.
      return null;
  }
}

/** The second result lists tablespaces, with their sizes in kilobytes. */
function estimate(rows: TextRow[]): number {
  return rows.slice(1).reduce((sum, [, , kilobytes]) => sum + Number(kilobytes ?? 0) * 1024, 0);
}

/** The first row is the start, the last one the end. */
function endOf(rows: TextRow[]): BaseBackupEvent {
  const [startLsn, timeline] = rows[0] ?? [];
  const [endLsn] = rows.at(-1) ?? [];
  if (!startLsn || !endLsn || rows.length < 3) throw new Error('PostgreSQL did not describe the backup.');
  return { kind: 'end', startLsn: parseLsn(startLsn), endLsn: parseLsn(endLsn), timeline: Number(timeline) };
}
