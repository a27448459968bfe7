// Cuts the tar stream of BASE_BACKUP into one part for each database, so that one project can be restored alone.

export type Cut = { part: string; bytes: Buffer };

const block = 512;

/** The sockets' lock files belong to the running server. */
const leftOut = /^\.s\.PGSQL\./;

export class TarParts {
  private readonly header = Buffer.alloc(block);
  private headerBytes = 0;
  /** Bytes of the current entry that are missing, with its padding. */
  private left = 0;
  private part: string | null = null;

  /** Consecutive bytes of parts. They refer to the memory of `bytes`, except for headers. */
  *cut(bytes: Buffer): Generator<Cut> {
    for (let at = 0; at < bytes.length; ) {
      if (this.left > 0) {
        const end = Math.min(bytes.length, at + this.left);
        if (this.part !== null) yield { part: this.part, bytes: bytes.subarray(at, end) };
        this.left -= end - at;
        at = end;
        continue;
      }
      const copied = bytes.copy(this.header, this.headerBytes, at);
      this.headerBytes += copied;
      at += copied;
      if (this.headerBytes < block) return;
      this.headerBytes = 0;
      // The end of a tar: blocks of zeroes.
      if (this.header[0] === 0) continue;
      const { name, size } = readTarHeader(this.header);
      this.part = leftOut.test(name) ? null : partOf(name);
      this.left = Math.ceil(size / block) * block;
      if (this.part !== null) yield { part: this.part, bytes: Buffer.from(this.header) };
    }
  }

  /** Whether the last entry is complete. */
  get isComplete(): boolean {
    return this.left === 0 && this.headerBytes === 0;
  }
}

export function readTarHeader(header: Buffer): { name: string; size: number; type: string } {
  const end = header.indexOf(0);
  const name = header.toString('utf8', 0, Math.min(end < 0 ? 100 : end, 100)).replace(/^\.\//, '');
  const field = header.subarray(124, 136);
  const isBinary = ((field[0] ?? 0) & 0x80) !== 0;
  const size = isBinary ? Number(field.readBigUInt64BE(4)) : Number.parseInt(field.toString('latin1'), 8);
  if (!Number.isSafeInteger(size) || size < 0) throw new Error(`The tar entry ${name} has no valid size.`);
  return { name, size, type: String.fromCharCode(header[156] ?? 0) };
}

function partOf(name: string): string {
  const [, oid] = /^base\/(\d+)(?:\/|$)/.exec(name) ?? [];
  return oid ? `db-${oid}.tar` : 'rest.tar';
}
