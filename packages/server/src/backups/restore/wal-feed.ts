// Puts stored WAL into the pg_wal of a server that replays it, a few segments ahead of it, and removes what is replayed:
// the disk never holds more than a few hundred megabytes of it, and downloading and replaying go on at once.
import { chown, readdir, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { segmentName, segmentStart } from '../../postgres/replication/lsn.ts';
import type { RunAs } from '../../servers/embedded/run-as.ts';
import type { Repository } from '../repository/repository.ts';
import { readSegment } from '../wal/wal-archive.ts';

type Request = {
  repository: Repository;
  timeline: number;
  segmentBytes: number;
  from: bigint;
  /** Up to here, WAL is stored without a gap. */
  end: bigint;
  /** The server's folder for WAL, and its account. */
  folder: string;
  runAs: RunAs | null;
  signal: AbortSignal;
  /** How far the server has replayed, as far as is known. */
  replayed: () => bigint;
};

/** Ahead of the server, and behind it: its last restart point may need some. */
const ahead = 12n;
const behind = 4n;
/** 16 MB of memory each. */
const fetchedAtOnce = 4;
const lookMs = 20;

/** Returns when the last segment is in place. */
export async function feedWal(request: Request): Promise<void> {
  const { repository, timeline, end, folder, signal, replayed } = request;
  const size = BigInt(request.segmentBytes);
  const first = request.from - (request.from % size);
  const read = (start: bigint) =>
    readSegment(repository, segmentName(timeline, start, request.segmentBytes), request.segmentBytes, signal);
  // Those after it are fetched while one is written and the server is busy.
  const coming: Promise<Buffer | null>[] = [];
  let fetched = first;
  for (let start = first; start < end; start += size) {
    for (; coming.length < fetchedAtOnce && fetched < end; fetched += size) {
      const reading = read(fetched);
      reading.catch(() => {});
      coming.push(reading);
    }
    const bytes = await coming.shift();
    const name = segmentName(timeline, start, request.segmentBytes);
    if (!bytes) throw new Error(`The WAL segment ${name} is no longer stored.`);
    while (start > replayed() + ahead * size) await sleep(lookMs, undefined, { signal });
    await place(request, name, bytes);
    await removeBefore(folder, replayed() - behind * size, request.segmentBytes);
  }
}

/** Under another name first: the server must not read half of it. */
async function place({ folder, runAs }: Request, name: string, bytes: Buffer): Promise<void> {
  const draft = path.join(folder, `${name}.new`);
  await writeFile(draft, bytes, { mode: 0o600 });
  if (runAs) await chown(draft, runAs.uid, runAs.gid);
  await rename(draft, path.join(folder, name));
}

async function removeBefore(folder: string, before: bigint, segmentBytes: number): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!/^[0-9A-F]{24}$/.test(name)) continue;
    if (segmentStart(name, segmentBytes) + BigInt(segmentBytes) <= before)
      await rm(path.join(folder, name), { force: true });
  }
}
