// Arrays of bytes as parameters, in PostgreSQL's binary format: the driver would write them as text, with two digits a byte.

const byteaOid = 17;

/** For a parameter that is cast to `bytea[]`. */
export function byteaArray(items: readonly (Buffer | null)[]): Buffer {
  const head = Buffer.alloc(items.length === 0 ? 12 : 20);
  head.writeInt32BE(items.length === 0 ? 0 : 1, 0);
  head.writeInt32BE(items.includes(null) ? 1 : 0, 4);
  head.writeInt32BE(byteaOid, 8);
  if (items.length > 0) {
    head.writeInt32BE(items.length, 12);
    head.writeInt32BE(1, 16);
  }
  const pieces: Buffer[] = [head];
  for (const item of items) {
    const size = Buffer.alloc(4);
    size.writeInt32BE(item === null ? -1 : item.length);
    pieces.push(size);
    if (item !== null) pieces.push(item);
  }
  return Buffer.concat(pieces);
}
