// Puts the files of a backup back: the full backup first, then each incremental one over it. PostgreSQL's own program for
// this, pg_combinebackup, is not shipped with the embedded server.
import { mkdir, open, readdir, readFile, rm, writeFile as writeText } from 'node:fs/promises';
import path from 'node:path';
import { ByteReader } from '../repository/byte-reader.ts';
import { type BackupDescription, getObject, names, type Repository } from '../repository/repository.ts';
import { readTarHeader } from '../repository/tar-parts.ts';

type Options = {
  /** Which parts to lay out, by name. All of them if missing. */
  wanted?: (part: string) => boolean;
  signal?: AbortSignal;
  /** Content bytes that were read, of the sum of `bytes` of the wanted parts. */
  progress?: (bytes: number) => void;
};

const blockBytes = 8192;
const incrementalMagic = 0xd3ae1f0d;
const incrementalPrefix = 'INCREMENTAL.';
const copyBytes = 256 * 1024;
/** A segment of a relation has 1 GB. */
const maxBlocks = 131_072;

/**
 * Lays out a chain, full backup first, in an empty folder. The files are those of the last backup: what it does not
 * contain any more is removed. They belong to this process: the caller gives them to PostgreSQL's account.
 */
export async function layOut(
  repository: Repository,
  chain: readonly BackupDescription[],
  folder: string,
  { wanted = () => true, signal, progress = () => {} }: Options = {},
): Promise<void> {
  let read = 0;
  for (const backup of chain) {
    const present = new Set<string>();
    for (const part of backup.parts.filter(({ name }) => wanted(name))) {
      if (!/^(rest|db-\d+)\.tar$/.test(part.name))
        throw new Error(`Tablespaces cannot be restored: ${part.name}`);
      const content = getObject(repository, names.part(repository, backup.id, part.name), signal);
      await layOutTar(content, folder, present);
      read += part.bytes;
      progress(read);
    }
    if (backup.kind === 'incremental') await removeOthers(folder, '', present);
  }
  await correctLabel(path.join(folder, 'backup_label'));
}

/** PostgreSQL does not start from a label that says that the files are incremental, and now they are not. */
async function correctLabel(file: string): Promise<void> {
  const text = await readFile(file, 'utf8');
  await writeText(file, text.replace(/^INCREMENTAL FROM .*\n/gm, ''), { mode: 0o600 });
}

/** `present` receives the names of all entries, as they are after combining. */
async function layOutTar(
  content: AsyncIterable<Uint8Array>,
  folder: string,
  present: Set<string>,
): Promise<void> {
  const reader = new ByteReader(content);
  try {
    await layOutEntries(reader, folder, present);
  } finally {
    await reader.close();
  }
}

async function layOutEntries(reader: ByteReader, folder: string, present: Set<string>): Promise<void> {
  for (let header = await reader.take(512); header; header = await reader.take(512)) {
    const { name, size, type } = readTarHeader(header);
    const isSafe = name
      .split('/')
      .every((part, index, all) => part !== '..' && (part !== '' || (index > 0 && index === all.length - 1)));
    if (!isSafe || path.isAbsolute(name))
      throw new Error(`${JSON.stringify(name)} is not a name in a backup.`);
    if (type === '5') {
      present.add(name.replace(/\/$/, ''));
      await mkdir(path.join(folder, name), { recursive: true, mode: 0o700 });
    } else if (type === '0' || type === '\0') {
      const base = path.posix.basename(name);
      const isIncremental = base.startsWith(incrementalPrefix);
      const target = isIncremental
        ? path.posix.join(path.posix.dirname(name), base.slice(incrementalPrefix.length))
        : name;
      present.add(target);
      await mkdir(path.join(folder, path.posix.dirname(name)), { recursive: true, mode: 0o700 });
      if (isIncremental) await applyIncremental(reader, size, path.join(folder, target));
      else await copyFile(reader, size, path.join(folder, target));
      await reader.take((512 - (size % 512)) % 512);
    } else throw new Error(`The backup contains ${name}, which is neither a file nor a folder.`);
  }
}

async function copyFile(reader: ByteReader, size: number, file: string): Promise<void> {
  const handle = await open(file, 'w', 0o600);
  try {
    for (let left = size; left > 0; ) {
      const bytes = await need(reader, Math.min(left, copyBytes), file);
      await handle.writeFile(bytes);
      left -= bytes.length;
    }
  } finally {
    await handle.close();
  }
}

/**
 * The format that PostgreSQL's basebackup_incremental.c writes: magic, number of blocks, length of the relation in blocks
 * below which unlisted blocks are unchanged, the blocks' numbers, zeroes up to a multiple of the block size if there are
 * blocks, then the blocks. Integers are in the server's byte order, which is little endian on all our platforms.
 */
async function applyIncremental(reader: ByteReader, size: number, file: string): Promise<void> {
  const header = await need(reader, 12, file);
  const [magic, count, truncateTo] = [0, 4, 8].map((at) => header.readUInt32LE(at)) as [
    number,
    number,
    number,
  ];
  if (magic !== incrementalMagic || count > maxBlocks || truncateTo > maxBlocks) {
    throw new Error(`The incremental file for ${file} has no valid header.`);
  }
  const headerBytes = 12 + 4 * count;
  const padding = count === 0 ? 0 : (blockBytes - (headerBytes % blockBytes)) % blockBytes;
  if (size !== headerBytes + padding + count * blockBytes) {
    throw new Error(`The incremental file for ${file} has ${size} bytes, which do not fit ${count} blocks.`);
  }
  const numbers = await need(reader, 4 * count, file);
  await need(reader, padding, file);
  const handle = await open(file, 'r+');
  try {
    // Blocks from here on are in this file or do not exist. Blocks between the old end and the new one are zeroes.
    let length = truncateTo;
    for (let index = 0; index < count; index++)
      length = Math.max(length, numbers.readUInt32LE(index * 4) + 1);
    await handle.truncate(truncateTo * blockBytes);
    await handle.truncate(length * blockBytes);
    for (let index = 0; index < count; index++) {
      const at = numbers.readUInt32LE(index * 4) * blockBytes;
      await handle.write(await need(reader, blockBytes, file), 0, blockBytes, at);
    }
  } finally {
    await handle.close();
  }
}

async function need(reader: ByteReader, count: number, file: string): Promise<Buffer> {
  const bytes = await reader.take(count);
  if (!bytes) throw new Error(`The backup ends inside ${file}.`);
  return bytes;
}

/** Removes files of an earlier backup that this one no longer has: dropped tables and databases. */
async function removeOthers(folder: string, below: string, present: ReadonlySet<string>): Promise<void> {
  for (const entry of await readdir(path.join(folder, below), { withFileTypes: true })) {
    const name = below === '' ? entry.name : `${below}/${entry.name}`;
    if (!present.has(name)) await rm(path.join(folder, name), { recursive: true, force: true });
    else if (entry.isDirectory()) await removeOthers(folder, name, present);
  }
}
