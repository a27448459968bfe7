// Stores one WAL segment while it grows: new bytes as pieces, many small pieces as a larger one, and at the end the whole
// segment in place of its pieces (backups/README.md, WAL).
import { segmentName } from '../../postgres/replication/lsn.ts';
import { names, putOnce, type Repository, RepositoryConflict } from '../repository/repository.ts';
import { coveringPieces, type Piece, pieceName } from './wal-archive.ts';

/**
 * A server with little to write fills a segment in days, at a piece every second. With this rule a byte is written at most
 * once for each power of it, and a segment never has more than about a hundred pieces.
 */
const mergeAfter = 32;

type Tiered = Piece & { tier: number };

export class SegmentWriter {
  readonly start: bigint;
  /** Bytes from the beginning that were received, and that are stored. */
  received = 0;
  stored = 0;
  private readonly repository: Repository;
  private readonly name: string;
  private readonly folder: string;
  private readonly bytes: Buffer;
  private pieces: Tiered[];
  private present: Buffer;
  private storing: Promise<void> = Promise.resolve();

  constructor(
    repository: Repository,
    segment: {
      timeline: number;
      start: bigint;
      segmentBytes: number;
      /** What is stored already, and its content. */
      pieces?: readonly Piece[];
      content?: Buffer | null;
    },
  ) {
    const { timeline, start, segmentBytes, pieces = [], content = null } = segment;
    this.repository = repository;
    this.start = start;
    this.name = segmentName(timeline, start, segmentBytes);
    this.folder = names.wal(repository, timeline);
    this.bytes = Buffer.alloc(segmentBytes);
    this.pieces = pieces.map((piece) => ({ ...piece, tier: 0 }));
    this.stored = coveringPieces(pieces).at(-1)?.to ?? 0;
    this.present = content?.subarray(0, this.stored) ?? Buffer.alloc(0);
  }

  get isComplete(): boolean {
    return this.received === this.bytes.length;
  }

  get storedEnd(): bigint {
    return this.start + BigInt(this.stored);
  }

  get hasNew(): boolean {
    return this.received > this.stored;
  }

  /** Takes the bytes that belong to this segment and returns how many. */
  add(content: Buffer): number {
    const count = content.copy(this.bytes, this.received);
    // A server that was set back to an earlier state writes other WAL under the same names.
    const known = this.present.subarray(this.received, this.received + count);
    if (!known.equals(content.subarray(0, known.length)))
      throw new RepositoryConflict(this.repository, this.name);
    this.received += count;
    return count;
  }

  /** Stores what is new, after what is being stored: as a piece, or the whole segment if it is complete. */
  store(signal: AbortSignal): Promise<void> {
    this.storing = this.storing.catch(() => {}).then(() => this.storeNew(signal));
    return this.storing;
  }

  private async storeNew(signal: AbortSignal): Promise<void> {
    if (this.isComplete && !this.hasNew) return;
    if (this.isComplete) {
      await putOnce(this.repository, this.folder + this.name, this.bytes, signal);
      this.stored = this.received;
      await this.remove(this.pieces, signal);
      return;
    }
    if (!this.hasNew) return;
    // Bytes below `received` do not change any more, so the piece needs no copy.
    const piece = { from: this.stored, to: this.received, tier: 0 };
    await this.put(piece, signal);
    this.stored = piece.to;
    await this.merge(signal);
  }

  private async merge(signal: AbortSignal): Promise<void> {
    const { tier = 0 } = this.pieces.at(-1) ?? {};
    const last = this.pieces.slice(-mergeAfter);
    if (last.length < mergeAfter || last.some((piece) => piece.tier !== tier)) return;
    const merged = { from: last[0]?.from ?? 0, to: this.stored, tier: tier + 1 };
    this.pieces = this.pieces.slice(0, -mergeAfter);
    await this.put(merged, signal);
    await this.remove(last, signal);
    await this.merge(signal);
  }

  private async put(piece: Tiered, signal: AbortSignal): Promise<void> {
    const content = this.bytes.subarray(piece.from, piece.to);
    await putOnce(this.repository, this.folder + pieceName(this.name, piece), content, signal);
    this.pieces.push(piece);
  }

  /** Pieces that cannot be deleted do no harm. Pruning deletes them. */
  private async remove(pieces: readonly Piece[], signal: AbortSignal): Promise<void> {
    const spent = pieces.map((piece) => this.folder + pieceName(this.name, piece));
    await this.repository.storage.deleteAll(spent, signal).catch(() => {});
  }
}
