// Loads a dump in pg_dump's custom format, in the order of pg_restore: everything, then the grants, then what needs them. The
// grants of schemas come at the very end: an owner that has none on its own schema could grant nothing inside of it any more.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { sql } from '../../postgres/sql.ts';
import type { Archive, ArchiveEntry } from '../read/archive.ts';
import { type Block, findBlocks, readBlock, readLargeObjects } from '../read/blocks.ts';
import { BrokenDump } from '../read/broken-dump.ts';
import type { CountContents } from '../read/contents.ts';
import type { Count } from '../read/counted.ts';
import type { DumpFile } from '../read/dump-file.ts';
import { splitStatements } from '../read/script.ts';
import { readAuthHead, readCopyRows } from './copy-text.ts';
import type { Runner } from './runner.ts';
import type { AuthRows } from './users.ts';

export type OpenArchive = Readonly<{
  file: DumpFile;
  archive: Archive;
  blocks: ReadonlyMap<number, Block>;
  /** Counts what is unpacked. */
  count: Count;
}>;

export async function openBlocks(file: DumpFile, archive: Archive, count: Count): Promise<OpenArchive> {
  return { file, archive, count, blocks: await findBlocks(file, archive) };
}

const linesAtOnce = 1_000;

/** Before anything runs. An entry can have millions of statements, or name millions of large objects. */
export async function countEntries({ entries }: Archive, count: CountContents): Promise<void> {
  for (const entry of entries) {
    if (entry.kind !== 'BLOB METADATA') {
      for await (const { text } of splitStatements(entry.text)) count(text);
      continue;
    }
    let lines = 0;
    for (const oid of largeObjectsIn(entry)) {
      count(createLargeObject(oid));
      if (++lines % linesAtOnce === 0) await nextTurn();
    }
  }
}

/** The rows of schema auth. */
export function authRowsOf({ file, archive, blocks, count }: OpenArchive): AuthRows[] {
  return archive.entries.flatMap(({ id, kind, copy }) => {
    const block = blocks.get(id);
    const head = kind === 'TABLE DATA' && copy ? readAuthHead(copy) : null;
    if (!block || !head) return [];
    const rows = () => readCopyRows(readBlock(file, archive, block, count), head.columns);
    return [{ ...head, rows }];
  });
}

export async function loadArchive(
  opened: OpenArchive,
  runner: Runner,
  progress: (fraction: number) => void,
): Promise<void> {
  const { entries } = opened.archive;
  const hasPath = entries.some(({ kind }) => kind === 'SEARCHPATH');
  let path: string | null = null;
  let done = 0;
  for (const pass of passes) {
    for (const entry of entries) {
      if (passOf(entry) !== pass) continue;
      progress(++done / entries.length);
      if (!runner.admits(entry, null, await isEmpty(opened, entry, runner))) continue;
      if (!hasPath && entry.schema !== path && entry.schema !== null) {
        path = entry.schema;
        await runner.session.run(`set search_path = ${sql.id(path).text}, pg_catalog`);
      }
      await loadEntry(opened, entry, runner);
    }
  }
}

/** Whether no rows are lost without them. Looked at only where it matters. */
async function isEmpty({ file, archive, blocks, count }: OpenArchive, entry: ArchiveEntry, runner: Runner) {
  const block = blocks.get(entry.id);
  if (entry.kind !== 'TABLE DATA' || runner.wouldRun(entry)) return false;
  if (!block) return true;
  for await (const piece of readBlock(file, archive, block, count)) if (piece.length > 0) return false;
  return true;
}

const passes = ['main', 'grants', 'last', 'grants of schemas'] as const;

function passOf({ kind, name }: ArchiveEntry): (typeof passes)[number] {
  if (kind === 'ACL' && name.startsWith('SCHEMA ')) return 'grants of schemas';
  if (kind === 'ACL' || kind === 'DEFAULT ACL' || kind === 'ACL LANGUAGE') return 'grants';
  if (kind === 'EVENT TRIGGER' || kind === 'MATERIALIZED VIEW DATA') return 'last';
  return kind === 'COMMENT' && name.startsWith('EVENT TRIGGER ') ? 'last' : 'main';
}

async function loadEntry(opened: OpenArchive, entry: ArchiveEntry, runner: Runner): Promise<void> {
  const { file, archive, blocks, count } = opened;
  const block = blocks.get(entry.id);
  if (block && entry.kind === 'TABLE DATA') {
    if (!entry.copy) {
      throw new BrokenDump(
        'the dump holds INSERT statements instead of rows',
        'Dump without --inserts, --column-inserts and --rows-per-insert, or with --format=plain.',
      );
    }
    await runner.copy(entry.copy.trim(), entry, () => readBlock(file, archive, block, count));
    return;
  }
  if (block?.isLargeObjects) return fillLargeObjects(opened, block, runner);
  if (entry.kind === 'BLOB METADATA') return createLargeObjects(entry, runner);
  if (entry.kind === 'ACL' && entry.name.startsWith('LARGE OBJECTS')) {
    runner.skip(entry.text, entry, 'Grants on large objects are not taken over.');
    return;
  }
  for await (const { text, listedRows } of splitStatements(entry.text))
    await runner.statement(text, entry, listedRows);
}

/** Creates the large objects of an entry by pg_dump 17 and newer: one entry lists the numbers of many. */
async function createLargeObjects(entry: ArchiveEntry, runner: Runner): Promise<void> {
  for (const oid of largeObjectsIn(entry)) await runner.statement(createLargeObject(oid), entry);
}

/** One after the other: a text of 16 MB has millions of lines. */
function* largeObjectsIn({ text }: ArchiveEntry): Generator<string> {
  for (const [oid] of text.matchAll(/^\d{1,10}$/gm)) yield oid;
}

function createLargeObject(oid: string): string {
  return `SELECT pg_catalog.lo_create('${oid}');`;
}

const partBytes = 256 * 1024;

async function fillLargeObjects(
  { file, archive, count }: OpenArchive,
  block: Block,
  runner: Runner,
): Promise<void> {
  for await (const { oid, data } of readLargeObjects(file, archive, block, count)) {
    let at = 0;
    const put = async (part: Buffer) => {
      const values = [String(oid), String(at), `\\x${part.toString('hex')}`];
      const { error } = await runner.session.run(putPart, values);
      if (error) throw new BrokenDump(`large object ${oid} cannot be written: ${error.message}`);
      at += part.length;
    };
    let waiting: Buffer[] = [];
    let size = 0;
    for await (const piece of data) {
      waiting.push(Buffer.from(piece));
      size += piece.length;
      if (size < partBytes) continue;
      await put(Buffer.concat(waiting));
      waiting = [];
      size = 0;
    }
    if (size > 0) await put(Buffer.concat(waiting));
    runner.report.largeObjects++;
  }
}

const putPart = 'select pg_catalog.lo_put($1::pg_catalog.oid, $2::pg_catalog.int8, $3::pg_catalog.bytea)';
