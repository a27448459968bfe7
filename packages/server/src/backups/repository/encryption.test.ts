import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { backupKeyOf, compressedHere, DecryptionError, decrypt, encrypt } from './encryption.ts';

const key = backupKeyOf(Buffer.alloc(32, 7));
const header = 44;

async function collect(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of source) pieces.push(piece);
  return Buffer.concat(pieces);
}
const seal = (content: Uint8Array[], name = 'a') => collect(encrypt(key, name, content));
const open = (stored: Uint8Array, name = 'a', withKey = key) => collect(decrypt(withKey, name, [stored]));
const problem = (stored: Uint8Array, name = 'a', withKey = key) =>
  open(stored, name, withKey).then(
    () => 'none',
    (error) => (error instanceof DecryptionError ? error.problem : error),
  );

/** The positions at which the frames begin, and the end. */
function frames(stored: Buffer): number[] {
  const at = [header];
  for (let position = header; position < stored.length; at.push(position)) {
    position += 4 + (stored.readUInt32BE(position) & 0x7fff_ffff) + 16;
  }
  return at;
}

describe('the encryption of backups', () => {
  it('compresses the megabytes of a stream that become smaller, and only these', async () => {
    const mb = 1024 * 1024;
    const [text, image] = [Buffer.alloc(mb, 'abcd'), randomBytes(mb)];
    const pieces = [text, text, image, image, image, text, text.subarray(0, 1000)];
    async function* stream() {
      for (const piece of pieces) yield piece;
    }
    const stored = await collect(encrypt(key, 'a', stream(), compressedHere));
    expect((await open(stored)).equals(Buffer.concat(pieces))).toBe(true);
    expect(stored.length).toBeGreaterThan(3 * mb);
    expect(stored.length).toBeLessThan(3.2 * mb);
    async function* nothing() {}
    expect(await open(await collect(encrypt(key, 'a', nothing(), compressedHere)))).toHaveLength(0);
  });

  it('gives back what was stored, of any size, and never the same bytes twice', async () => {
    for (const size of [0, 1, 65_535, 65_536, 65_537, 1_000_000]) {
      const content = randomBytes(size);
      const stored = await seal([content.subarray(0, 10), content.subarray(10)]);
      expect((await open(stored)).equals(content), String(size)).toBe(true);
      expect(stored.includes(content.subarray(0, 16)) && size > 16).toBe(false);
    }
    expect((await seal([Buffer.from('x')])).equals(await seal([Buffer.from('x')]))).toBe(false);
  });

  it('compresses', async () => {
    expect((await seal([Buffer.alloc(16 * 1024 * 1024)])).length).toBeLessThan(100_000);
    const random = randomBytes(1_000_000);
    expect((await seal([random])).length).toBeLessThan(1_002_000);
    expect((await seal([Buffer.concat([random, Buffer.alloc(1_000_000)])])).length).toBeLessThan(1_010_000);
  });

  it('finds a flipped bit in every byte: header, lengths, content and tags', async () => {
    const stored = await seal([randomBytes(100)]);
    for (let at = 0; at < stored.length; at++) {
      const changed = Buffer.from(stored);
      changed[at] = (changed[at] as number) ^ (1 << (at % 8));
      expect(await problem(changed), `byte ${at}`).not.toBe('none');
    }
  });

  it('finds frames that are missing, exchanged, repeated or appended', async () => {
    const stored = await seal([randomBytes(200_000)]);
    const [first = 0, second = 0, third = 0, fourth = 0] = frames(stored);
    expect(frames(stored)).toHaveLength(5);
    const part = (from: number, to = stored.length) => stored.subarray(from, to);
    const wrong = {
      'without the last frame': part(0, frames(stored)[3] ?? 0),
      'cut inside a frame': part(0, third + 100),
      'only a header': part(0, first),
      'without the second frame': Buffer.concat([part(0, second), part(third)]),
      exchanged: Buffer.concat([part(0, second), part(third, fourth), part(second, third), part(fourth)]),
      repeated: Buffer.concat([part(0, second), part(first)]),
      'with bytes after the end': Buffer.concat([stored, Buffer.from([0])]),
      twice: Buffer.concat([stored, part(first)]),
      empty: Buffer.alloc(0),
    };
    for (const [what, bytes] of Object.entries(wrong)) expect(await problem(bytes), what).toBe('damaged');
  });

  it('finds an object that took the place of another one, and names a wrong master key', async () => {
    const stored = await seal([Buffer.from('content')], 'wal/1');
    expect(await problem(stored, 'wal/2')).toBe('damaged');
    expect(await problem(stored, 'wal/1', backupKeyOf(Buffer.alloc(32, 8)))).toBe('wrong_key');
    expect(await problem(stored, 'wal/1')).toBe('none');
  });
});
