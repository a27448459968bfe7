// How an object of a repository is encrypted (backups/README.md, Encryption): gzip, then frames under AES-256-GCM. Frames are
// numbered and the last one is marked, so truncation, reordering and repetition are detected, not only changed bytes.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { pipeline, Readable } from 'node:stream';
import { createGunzip, createGzip, gzipSync } from 'node:zlib';
import { ByteReader } from './byte-reader.ts';

/** `wrong_key`: encrypted with another master key. `damaged`: anything else that cannot be what was written. */
export class DecryptionError extends Error {
  override readonly name = 'DecryptionError';
  readonly problem: 'wrong_key' | 'damaged';

  constructor(problem: 'wrong_key' | 'damaged', message: string) {
    super(message);
    this.problem = problem;
  }
}

const magic = Buffer.from('RHB1');
const idBytes = 8;
const saltBytes = 32;
const headerBytes = magic.length + idBytes + saltBytes;
const frameBytes = 64 * 1024;
const tagBytes = 16;
const lastFrame = 0x8000_0000;

export type BackupKey = Readonly<{ key: Buffer; id: Buffer }>;
type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

export function backupKeyOf(masterKey: Buffer): BackupKey {
  const key = Buffer.from(hkdfSync('sha256', masterKey, '', 'rowhouse backup key', 32));
  const id = createHmac('sha256', key).update('rowhouse backup key id').digest().subarray(0, idBytes);
  return { key, id };
}

/** The id of the key with which an object was encrypted, from its first bytes. null: it is not such an object. */
export function keyIdOf(start: Buffer): Buffer | null {
  const isWhole = start.length >= headerBytes && start.subarray(0, magic.length).equals(magic);
  return isWhole ? start.subarray(magic.length, magic.length + idBytes) : null;
}

/** Compresses and encrypts the content of the object `name`. */
export async function* encrypt(
  backupKey: BackupKey,
  name: string,
  content: Bytes,
  compress: (content: Bytes) => AsyncIterable<Buffer> = compressed,
): AsyncGenerator<Buffer> {
  const salt = randomBytes(saltBytes);
  const key = objectKey(backupKey, name, salt);
  yield Buffer.concat([magic, backupKey.id, salt]);
  let number = 0;
  let pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of compress(content)) {
    pieces.push(piece);
    size += piece.length;
    if (size < frameBytes) continue;
    const bytes = Buffer.concat(pieces, size);
    let at = 0;
    for (; size - at >= frameBytes; at += frameBytes) {
      yield sealFrame(key, number++, bytes.subarray(at, at + frameBytes), false);
    }
    pieces = [bytes.subarray(at)];
    size -= at;
  }
  yield sealFrame(key, number, Buffer.concat(pieces, size), true);
}

/** The same for a content that is there as a whole, in one go and one buffer. */
export function encryptWhole(backupKey: BackupKey, name: string, content: Uint8Array): Buffer {
  const salt = randomBytes(saltBytes);
  const key = objectKey(backupKey, name, salt);
  const zipped = gzipSync(content, { level: levelFor([content]), chunkSize: zipBytes });
  const frames = [magic, backupKey.id, salt];
  let number = 0;
  let at = 0;
  for (; zipped.length - at >= frameBytes; at += frameBytes) {
    frames.push(sealFrame(key, number++, zipped.subarray(at, at + frameBytes), false));
  }
  frames.push(sealFrame(key, number, zipped.subarray(at), true));
  return Buffer.concat(frames);
}

/** The content of the object `name`. Nothing is yielded that was not authenticated. */
export async function* decrypt(backupKey: BackupKey, name: string, stored: Bytes): AsyncGenerator<Buffer> {
  const zipped = Readable.from(openFrames(backupKey, name, stored), { objectMode: false });
  const gunzip = createGunzip({ chunkSize: zipBytes });
  pipeline(zipped, gunzip, () => {});
  try {
    for await (const piece of gunzip) yield piece;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw code?.startsWith('Z_') ? damaged(name, 'it cannot be decompressed') : error;
  } finally {
    zipped.destroy();
  }
}

async function* compressed(content: Bytes): AsyncGenerator<Buffer> {
  const source = Readable.from(content, { objectMode: false });
  const level = Array.isArray(content) ? levelFor(content) : 1;
  const gzip = createGzip({ level, chunkSize: zipBytes });
  pipeline(source, gzip, () => {});
  for await (const piece of gzip) yield piece;
}

/**
 * For a thread of its own: compresses there, while zlib's streams use threads that all of the process share. A gzip file may
 * have several members, so each megabyte has the level that fits: a backup has files of text and of images one after the other.
 */
export async function* compressedHere(content: Bytes): AsyncGenerator<Buffer> {
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  const zip = () => {
    const chunk = Buffer.concat(pieces, bytes);
    pieces = [];
    bytes = 0;
    return gzipSync(chunk, { level: levelFor([chunk]), chunkSize: zipBytes });
  };
  for await (const piece of content) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes >= memberBytes) yield zip();
  }
  yield zip();
}
const memberBytes = 1024 * 1024;

/**
 * Level 1 takes 28 ms for a megabyte of random bytes, which do not become smaller, 8 ms for a megabyte of text, and level 0
 * takes 3 ms. WAL has to be stored as fast as it is written: samples decide.
 */
function levelFor(content: readonly Uint8Array[]): 0 | 1 {
  const samples = content.flatMap((bytes) =>
    sampleParts.map((part) => {
      const at = Math.floor(bytes.length * part);
      return bytes.subarray(at, at + sampleBytes);
    }),
  );
  const sample = Buffer.concat(samples);
  return gzipSync(sample, { level: 1 }).length > sample.length * 0.95 ? 0 : 1;
}
const sampleParts = [0, 0.2, 0.4, 0.6, 0.8];
const sampleBytes = 8 * 1024;
const zipBytes = 128 * 1024;

async function* openFrames(backupKey: BackupKey, name: string, stored: Bytes): AsyncGenerator<Buffer> {
  const reader = new ByteReader(stored);
  try {
    yield* readFrames(backupKey, name, reader);
  } finally {
    await reader.close();
  }
}

async function* readFrames(backupKey: BackupKey, name: string, reader: ByteReader): AsyncGenerator<Buffer> {
  const header = await reader.take(headerBytes);
  if (!header?.subarray(0, magic.length).equals(magic))
    throw damaged(name, 'it is not an object of a backup');
  if (!header.subarray(magic.length, magic.length + idBytes).equals(backupKey.id)) {
    throw new DecryptionError('wrong_key', `${name} was encrypted with another master key.`);
  }
  const key = objectKey(backupKey, name, header.subarray(headerBytes - saltBytes));
  for (let number = 0; ; number++) {
    const prefix = await reader.take(4);
    if (!prefix) throw damaged(name, 'its end is missing');
    const word = prefix.readUInt32BE();
    const isLast = word >= lastFrame;
    const size = isLast ? word - lastFrame : word;
    if (size > frameBytes) throw damaged(name, `frame ${number} is too long`);
    const sealed = await reader.take(size + tagBytes);
    if (!sealed) throw damaged(name, 'its end is missing');
    yield openFrame(key, number, prefix, sealed, isLast, name);
    if (!isLast) continue;
    if (await reader.take(1)) throw damaged(name, 'there are bytes after its end');
    return;
  }
}

function sealFrame(key: Buffer, number: number, content: Buffer, isLast: boolean): Buffer {
  const prefix = Buffer.alloc(4);
  prefix.writeUInt32BE(content.length + (isLast ? lastFrame : 0));
  const cipher = createCipheriv('aes-256-gcm', key, nonceOf(number, isLast)).setAAD(prefix);
  return Buffer.concat([prefix, cipher.update(content), cipher.final(), cipher.getAuthTag()]);
}

function openFrame(
  key: Buffer,
  number: number,
  prefix: Buffer,
  sealed: Buffer,
  isLast: boolean,
  name: string,
): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(number, isLast), { authTagLength: tagBytes });
  decipher.setAAD(prefix).setAuthTag(sealed.subarray(sealed.length - tagBytes));
  try {
    return Buffer.concat([decipher.update(sealed.subarray(0, sealed.length - tagBytes)), decipher.final()]);
  } catch {
    throw damaged(name, `frame ${number} was changed`);
  }
}

/** Every object has a key of its own, so a number as nonce never repeats under a key. */
function nonceOf(number: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64BE(BigInt(number));
  nonce[11] = isLast ? 1 : 0;
  return nonce;
}

function objectKey({ key }: BackupKey, name: string, salt: Buffer): Buffer {
  return Buffer.from(hkdfSync('sha256', key, salt, `rowhouse backup object ${name}`, 32));
}

function damaged(name: string, reason: string): DecryptionError {
  return new DecryptionError('damaged', `${name} is damaged: ${reason}.`);
}
