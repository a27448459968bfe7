import { describe, expect, it } from 'vitest';
import { segmentName } from '../../postgres/replication/lsn.ts';
import { continuousEnd, coveringPieces, pieceName, type StoredSegment, storedEnd } from './wal-archive.ts';

const size = 1024 * 1024;
const segment = (number: number, pieces: [number, number][] | null): StoredSegment => ({
  name: segmentName(1, BigInt(number * size), size),
  isWhole: pieces === null,
  pieces: (pieces ?? []).map(([from, to]) => ({ from, to })),
  storedAt: new Date(),
});

describe('pieces of WAL', () => {
  it('are read in order, up to the first gap, without those that others contain', () => {
    const cover = (...pieces: [number, number][]) =>
      coveringPieces(pieces.map(([from, to]) => ({ from, to }))).map(({ from, to }) => [from, to]);
    expect(cover([0, 10], [10, 20], [20, 25])).toEqual([
      [0, 10],
      [10, 20],
      [20, 25],
    ]);
    // A larger piece was stored, and the smaller ones are not deleted yet.
    expect(cover([0, 10], [0, 20], [10, 20], [20, 30])).toEqual([
      [0, 20],
      [20, 30],
    ]);
    expect(cover([0, 10], [11, 20])).toEqual([[0, 10]]);
    expect(cover([5, 10])).toEqual([]);
    expect(cover([20, 30], [0, 15], [10, 22])).toEqual([
      [0, 15],
      [10, 22],
      [20, 30],
    ]);
  });

  it('have names that sort by position', () => {
    expect(pieceName('000000010000000000000005', { from: 0x2b0, to: 0x10000 })).toBe(
      '000000010000000000000005.000002B0-00010000',
    );
  });
});

describe('the end of stored WAL', () => {
  it('is where the last segment ends, whole or not', () => {
    expect(storedEnd([], size)).toBeNull();
    expect(storedEnd([segment(3, null)], size)).toBe(BigInt(4 * size));
    expect(storedEnd([segment(3, null), segment(4, [[0, 100]])], size)).toBe(BigInt(4 * size + 100));
  });

  it('without a gap is where the first segment is missing or not whole', () => {
    const at = (from: number, ...segments: StoredSegment[]) => continuousEnd(segments, BigInt(from), 1, size);
    expect(at(2 * size + 5, segment(2, null), segment(3, null))).toBe(BigInt(4 * size));
    expect(at(2 * size + 5, segment(2, null), segment(4, null))).toBe(BigInt(3 * size));
    expect(at(2 * size + 5, segment(2, [[0, 900]]), segment(3, null))).toBe(BigInt(2 * size + 900));
    expect(at(2 * size + 5, segment(3, null))).toBeNull();
    expect(at(2 * size + 950, segment(2, [[0, 900]]))).toBeNull();
  });
});
