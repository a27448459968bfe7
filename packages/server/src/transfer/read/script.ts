// A plain dump: SQL as psql reads it, one statement at a time, with the rows of COPY … FROM stdin apart. Rows are never
// taken for statements, even if their COPY fails.

import { isUtf8 } from 'node:buffer';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { maxDumpStatementBytes } from '../../settings/limits/imports.ts';
import { beginningBytes, checkScriptBeginning } from './beginning.ts';
import { BrokenDump, endsTooEarly } from './broken-dump.ts';
import type { DumpFile } from './dump-file.ts';
import { findEnd, untilEnd } from './rows.ts';
import { StatementEnd } from './statement-end.ts';
import { findWords } from './words.ts';

/**
 * What pg_dump says about the statements that follow, or what they say themselves (subject.ts): good for a report, never for a
 * decision about rights.
 */
export type Heading = Readonly<{
  kind: string;
  schema: string | null;
  name: string;
  owner: string | null;
  /** Read from the statement, because there is no comment about it. */
  isDerived?: boolean;
}>;

export type ScriptItem = Readonly<{
  heading: Heading | null;
  /** Without the comments before it. */
  text: string;
  /** Why it cannot run: a command for psql, not SQL. */
  refused: string | null;
  /** How many rows an INSERT lists; null: it takes them from a query, or it is another statement. */
  listedRows: number | null;
  /** Where the rows of a COPY begin. */
  rowsAt: number | null;
  /** Where the statement begins, and where the reader is. */
  from: number;
  at: number;
}>;

const usualBytes = 256 * 1024;
const maxStepBytes = 2 * 1024 * 1024;
/** Statements that are read in one go. A window has 100,000 of a hostile script, and all requests would wait for them. */
const statementsAtOnce = 1_000;
const byteOrderMark = Buffer.from('\uFEFF');

/** Gives every statement in order. Rows are passed over; readRows reads them. */
export async function* readScript(file: DumpFile, windowBytes = usualBytes): AsyncGenerator<ScriptItem> {
  const beginning = await file.read(0, beginningBytes);
  checkScriptBeginning(beginning);
  const scan = new StatementEnd();
  const input = new Input(file, windowBytes);
  // Editors on Windows write one, and psql passes over it.
  if (beginning.indexOf(byteOrderMark) === 0) input.goTo(byteOrderMark.length);
  const marks = new Marks();
  let heading: Heading | null = null;
  let refused: string | null = null;
  for (let turn = 1; ; turn++) {
    if (turn % statementsAtOnce === 0) await nextTurn();
    const found = scan.find(input.bytes, input.isLast);
    if (found.kind === 'more') {
      if (input.isLast) break;
      await input.grow();
      continue;
    }
    const isCommand = found.kind === 'backslash';
    const end = isCommand ? await input.endOfLine(found.at) : found.at;
    if (isCommand && scan.hasBegun) {
      // psql would run it and go on with the statement.
      refused = psqlCommand;
      scan.skipTo(end);
      continue;
    }
    const start = isCommand ? found.at : scan.beginsAt;
    heading = findHeading(input.bytes.subarray(0, start)) ?? heading;
    const text = scan.hasBegun || isCommand ? textOf(input.bytes.subarray(start, end)) : '';
    marks.note(input.bytes.subarray(0, scan.hasBegun || isCommand ? start : end));
    const from = input.at + start;
    const { listedRows } = scan;
    input.skip(end);
    scan.restart();
    const item = {
      heading,
      text,
      refused: isCommand ? psqlCommand : refused,
      listedRows,
      rowsAt: null,
      from,
      at: input.at,
    };
    refused = null;
    if (isCommand ? isHarmless(text.trim()) : text === '') continue;
    noteStrings(scan, text);
    if (isCommand || !isCopyFromStdin(text)) {
      yield item;
      continue;
    }
    const rowsAt = await nextLine(file, input.at, text);
    yield { ...item, rowsAt };
    input.goTo(await skipRows(file, rowsAt, text));
  }
  if (scan.hasBegun)
    throw endsTooEarly(
      `the statement "${shorten(textStart(input.bytes.subarray(scan.beginsAt)))}" has no end`,
    );
  if (!scan.isOutside) throw endsTooEarly('a comment has no end');
  marks.note(input.bytes);
  marks.check();
}

/** pg_dump writes a first and a last line: without the last, the file was cut off between two statements. */
class Marks {
  private begun = 0;
  private complete = 0;

  /** `bytes`: what is between two statements. A file can hold several dumps, and have statements behind its last line. */
  note(bytes: Buffer): void {
    for (let at = bytes.indexOf(mark); at !== -1; at = bytes.indexOf(mark, at + 1)) {
      if (at > 0 && bytes[at - 1] !== 10) continue;
      const rest = bytes.toString('latin1', at + mark.length, at + mark.length + 12);
      if (/^ complete\s/.test(`${rest}\n`)) this.complete++;
      else if (/^\s/.test(`${rest}\n`)) this.begun++;
    }
  }

  check(): void {
    if (this.begun <= this.complete) return;
    throw endsTooEarly(
      `the line "${mark} complete" is missing`,
      'If you removed that line yourself, add it at the end.',
    );
  }
}

const mark = '-- PostgreSQL database dump';

/** The part of the file from the beginning of a statement to where it was read. */
class Input {
  at = 0;
  bytes: Buffer = Buffer.alloc(0);
  private readonly file: DumpFile;
  private readonly windowBytes: number;

  constructor(file: DumpFile, windowBytes: number) {
    this.file = file;
    this.windowBytes = windowBytes;
  }

  get isLast(): boolean {
    return this.at + this.bytes.length >= this.file.size;
  }

  /** By large steps, so that a long statement is not copied for each piece, but none that holds up other requests. */
  async grow(): Promise<void> {
    if (this.bytes.length > maxDumpStatementBytes)
      throw new BrokenDump(
        'a statement is longer than 64 MB',
        'Dump without --inserts and --rows-per-insert.',
      );
    const wanted = Math.max(this.windowBytes, Math.min(this.bytes.length, maxStepBytes));
    const next = await this.file.read(this.at + this.bytes.length, wanted);
    this.bytes = Buffer.concat([this.bytes, next]);
  }

  async endOfLine(from: number): Promise<number> {
    for (;;) {
      const end = this.bytes.indexOf(10, from);
      if (end !== -1) return end;
      if (this.isLast) return this.bytes.length;
      await this.grow();
    }
  }

  skip(size: number): void {
    this.at += size;
    this.bytes = this.bytes.subarray(size);
  }

  goTo(at: number): void {
    this.at = at;
    this.bytes = Buffer.alloc(0);
  }
}

/** The statements of a text that is in memory, without the comments before them. The last may lack its semicolon. */
export async function* splitStatements(
  text: string,
): AsyncGenerator<Pick<ScriptItem, 'text' | 'listedRows'>> {
  const scan = new StatementEnd();
  let bytes = Buffer.from(text);
  for (let turn = 1; ; turn++) {
    if (turn % statementsAtOnce === 0) await nextTurn();
    const found = scan.find(bytes, true);
    const end = found.kind === 'end' ? found.at : bytes.length;
    const { listedRows } = scan;
    if (scan.hasBegun) yield { text: bytes.toString('utf8', scan.beginsAt, end).trim(), listedRows };
    if (found.kind !== 'end') return;
    bytes = bytes.subarray(end);
    scan.restart();
  }
}

/** The rows of a COPY, without the line that ends them. */
export function readRows(file: DumpFile, rowsAt: number, windowBytes = usualBytes): AsyncGenerator<Buffer> {
  return untilEnd(piecesOf(file, rowsAt, windowBytes), { mayLack: false });
}

async function* piecesOf(file: DumpFile, from: number, windowBytes: number): AsyncGenerator<Buffer> {
  for (let at = from; at < file.size; ) {
    const piece = await file.read(at, windowBytes);
    at += piece.length;
    yield piece;
  }
}

async function skipRows(file: DumpFile, rowsAt: number, copy: string): Promise<number> {
  let rest: Buffer = Buffer.from('\n');
  let restAt = rowsAt - 1;
  for (let at = rowsAt; ; ) {
    const next = await file.read(at, usualBytes);
    at += next.length;
    const bytes = Buffer.concat([rest, next]);
    const end = findEnd(bytes, at >= file.size);
    if (end !== -1) return Math.min(file.size, restAt + end + 3);
    if (next.length === 0)
      throw endsTooEarly(`the line "\\." is missing behind the rows of ${shorten(copy)}`);
    const keep = Math.max(0, bytes.length - 5);
    rest = bytes.subarray(keep);
    restAt += keep;
  }
}

/** Rows begin on the next line. */
async function nextLine(file: DumpFile, at: number, copy: string): Promise<number> {
  const bytes = await file.read(at, 1024);
  const end = bytes.indexOf(10);
  if (end === -1) throw endsTooEarly(`the line "\\." is missing behind ${shorten(copy)}`);
  if (bytes.subarray(0, end).toString('latin1').trim() !== '')
    throw new BrokenDump('COPY … FROM stdin is followed by something else on its line');
  return at + end + 1;
}

function textOf(bytes: Buffer): string {
  if (!isUtf8(bytes)) throw new BrokenDump('the dump is not valid UTF-8', 'Dump with --encoding=UTF8.');
  if (bytes.toString('latin1', 0, 7) === 'toc.dat')
    throw new BrokenDump('the dump has the format "tar"', 'Dump with --format=custom or --format=plain.');
  if (bytes.includes(0)) throw new BrokenDump('a statement contains a NUL character');
  return bytes.toString('utf8');
}

const psqlCommand = 'A command for psql, not SQL.';
/** Written by pg_dump; none of them has a meaning here. */
const harmless = /^\\(?:restrict [A-Za-z0-9]+|unrestrict [A-Za-z0-9]+|encoding '?UTF-?8'?)$/i;

function isHarmless(command: string): boolean {
  return harmless.test(command);
}

const maxHeadingBytes = 16 * 1024;

/** The last one: -- Name: teas; Type: TABLE; Schema: public; Owner: ada */
function findHeading(comments: Buffer): Heading | null {
  const lines = comments.toString('utf8', Math.max(0, comments.length - maxHeadingBytes)).split(/\r?\n/);
  const line = lines.findLast(
    (text) => text.startsWith('-- Name: ') || text.startsWith('-- Data for Name: '),
  );
  if (line === undefined) return null;
  // From the end: a name can hold anything, even another heading.
  const owner = line.lastIndexOf('; Owner: ');
  const schema = line.lastIndexOf('; Schema: ', owner);
  const kind = line.lastIndexOf('; Type: ', schema);
  if (owner === -1 || schema === -1 || kind === -1) return null;
  const nullable = (text: string) => (text === '-' || text === '' ? null : text);
  return {
    name: line.slice(line.indexOf('Name: ') + 6, kind),
    kind: line.slice(kind + 8, schema),
    schema: nullable(line.slice(schema + 10, owner)),
    owner: nullable(line.slice(owner + 9).split('; Tablespace: ')[0] ?? ''),
  };
}

/** A table has at most 1,600 columns. */
const maxCopyChars = 512 * 1024;

/** COPY … FROM STDIN, with both words outside of parentheses and quotes. */
function isCopyFromStdin(statement: string): boolean {
  if (!/^copy\b/i.test(statement)) return false;
  const words = findWords(statement, maxCopyChars);
  return words.some(
    ({ word, depth }, index) => word === 'from' && depth === 0 && words[index + 1]?.word === 'stdin',
  );
}

/** The setting decides where strings end in all that follows. */
function noteStrings(scan: StatementEnd, statement: string): void {
  if (statement.length > 200) return;
  const [, value] =
    /^set\s+standard_conforming_strings\s*(?:=|to)\s*'?(on|off)'?\s*;$/i.exec(statement) ?? [];
  if (value) scan.standardStrings = value.toLowerCase() === 'on';
}

/** For a message: one line of it. */
function shorten(text: string): string {
  const line = text.slice(0, 400).replace(/\s+/g, ' ').trim();
  return line.length > 80 ? `${line.slice(0, 80)}…` : line;
}

function textStart(bytes: Buffer): string {
  return bytes.toString('utf8', 0, 400);
}
