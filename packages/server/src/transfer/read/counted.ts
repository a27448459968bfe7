// Counts bytes on their way.

/** Called with the number of bytes; throws when there were enough. */
export type Count = (bytes: number) => void;

export async function* counted(pieces: AsyncIterable<Buffer>, count: Count): AsyncGenerator<Buffer> {
  for await (const piece of pieces) {
    count(piece.length);
    yield piece;
  }
}
