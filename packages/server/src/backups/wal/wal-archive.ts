// The WAL in a repository: which segments and pieces are there, and the bytes of one segment.
import { segmentName, segmentStart } from '../../postgres/replication/lsn.ts';
import { names, type Repository, readSmall } from '../repository/repository.ts';
import type { StoredObject } from '../storage/storage.ts';

export type Piece = { from: number; to: number };
/** One segment: `isWhole`, or the pieces of it that are stored, by `from`. */
export type StoredSegment = { name: string; isWhole: boolean; pieces: Piece[]; storedAt: Date };

/** The segments of a timeline in their order. `prefix`: only those whose names begin with it. */
export async function listSegments(
  repository: Repository,
  timeline: number,
  { prefix = '', signal }: { prefix?: string; signal?: AbortSignal | undefined } = {},
): Promise<StoredSegment[]> {
  const segments = new Map<string, StoredSegment>();
  const folder = names.wal(repository, timeline);
  for await (const object of repository.storage.list(folder + prefix, signal)) {
    const read = readName(object, folder);
    if (!read) continue;
    const segment = segments.get(read.name) ?? {
      name: read.name,
      isWhole: false,
      pieces: [],
      storedAt: object.storedAt,
    };
    if (read.piece) segment.pieces.push(read.piece);
    else segment.isWhole = true;
    if (object.storedAt > segment.storedAt) segment.storedAt = object.storedAt;
    segments.set(read.name, segment);
  }
  return [...segments.values()];
}

/** How far the stored bytes of a segment reach from its beginning without a gap. */
export function coveredBytes(segment: StoredSegment, segmentBytes: number): number {
  if (segment.isWhole) return segmentBytes;
  return coveringPieces(segment.pieces).at(-1)?.to ?? 0;
}

/** The position up to which a timeline's WAL is stored, or null if there is none. */
export function storedEnd(segments: readonly StoredSegment[], segmentBytes: number): bigint | null {
  const last = segments.at(-1);
  if (!last) return null;
  return segmentStart(last.name, segmentBytes) + BigInt(coveredBytes(last, segmentBytes));
}

/** The position up to which WAL is stored without a gap, from this position on. null: not even the first byte. */
export function continuousEnd(
  segments: readonly StoredSegment[],
  from: bigint,
  timeline: number,
  segmentBytes: number,
): bigint | null {
  const byName = new Map(segments.map((segment) => [segment.name, segment]));
  let end: bigint | null = null;
  for (let at = from - (from % BigInt(segmentBytes)); ; at += BigInt(segmentBytes)) {
    const segment = byName.get(segmentName(timeline, at, segmentBytes));
    const covered = segment ? coveredBytes(segment, segmentBytes) : 0;
    if (covered > 0 && at + BigInt(covered) > from) end = at + BigInt(covered);
    if (covered < segmentBytes) return end;
  }
}

/** A segment as PostgreSQL wants it, filled up with zeroes. null: nothing of it is stored. */
export async function readSegment(
  repository: Repository,
  name: string,
  segmentBytes: number,
  signal?: AbortSignal,
): Promise<Buffer | null> {
  const timeline = Number.parseInt(name.slice(0, 8), 16);
  const folder = names.wal(repository, timeline);
  // Listed twice at most: between a list and a read, the receiver may replace pieces by the whole segment.
  for (let attempt = 1; ; attempt++) {
    const [segment] = await listSegments(repository, timeline, { prefix: name, signal });
    if (!segment) return null;
    try {
      const options = { maxBytes: segmentBytes, ...(signal && { signal }) };
      if (segment.isWhole) return await readSmall(repository, folder + name, options);
      const bytes = Buffer.alloc(segmentBytes);
      for (const piece of coveringPieces(segment.pieces)) {
        (await readSmall(repository, folder + pieceName(name, piece), options)).copy(bytes, piece.from);
      }
      return bytes;
    } catch (error) {
      if (attempt === 3 || (error as { problem?: string }).problem !== 'missing') throw error;
    }
  }
}

export function pieceName(segment: string, { from, to }: Piece): string {
  return `${segment}.${hex(from)}-${hex(to)}`;
}

/** The pieces to read, in order, without those that others contain, up to the first gap. */
export function coveringPieces(pieces: readonly Piece[]): Piece[] {
  const covering: Piece[] = [];
  for (const piece of [...pieces].sort((a, b) => a.from - b.from || b.to - a.to)) {
    const covered = covering.at(-1)?.to ?? 0;
    if (piece.from > covered) break;
    if (piece.to > covered) covering.push(piece);
  }
  return covering;
}

function readName({ name }: StoredObject, folder: string): { name: string; piece: Piece | null } | null {
  const pattern = /^([0-9A-F]{24})(?:\.([0-9A-F]{8})-([0-9A-F]{8}))?$/;
  const [, segment, from, to] = pattern.exec(name.slice(folder.length)) ?? [];
  if (!segment) return null;
  if (!from || !to) return { name: segment, piece: null };
  return { name: segment, piece: { from: Number.parseInt(from, 16), to: Number.parseInt(to, 16) } };
}

function hex(value: number): string {
  return value.toString(16).toUpperCase().padStart(8, '0');
}
