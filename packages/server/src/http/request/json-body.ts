// Parses JSON bodies strictly: valid UTF-8, valid JSON, no text that PostgreSQL could not store unchanged.
import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import { maxStatements } from '@rowhouse/api';
import { errors } from '../../errors/errors.ts';
import { atOnce, inTurns, type Slices, turn } from '../../lib/fair-reads.ts';
import { ExactNumber, isJsonObject, parseJsonText, readWellFormed } from '../../query/json/json-text.ts';
import { LargeSyntaxError, parseLargeJson, sliceBytes } from '../../query/json/large-json.ts';
import type { BodyMemory } from './body-memory.ts';

/** A large body is parsed in slices, so that other requests are served in between. */
export function parseBody(
  bytes: Buffer,
  memory: BodyMemory | null,
  numbers: Numbers = 'double',
): unknown | Promise<unknown> {
  return bytes.length > sliceBytes ? parseLargeBody(bytes, memory, numbers) : parseSmallBody(bytes, numbers);
}

async function parseLargeBody(bytes: Buffer, memory: BodyMemory | null, numbers: Numbers): Promise<unknown> {
  const onValues = (more: number) => memory?.addValues(more);
  try {
    const body = await parseLargeJson(bytes, { exact: exactness[numbers], onValues });
    return await inTurns(withPlainFields(body, numbers));
  } catch (error) {
    if (error instanceof LargeSyntaxError) throw errors.invalidJson(await explainAt(bytes, error.offset));
    throw error;
  }
}

/** A compressed body, or one in another character set, would be misread. */
export function checkEncoding(headers: IncomingHttpHeaders): void {
  const charset = /charset="?([^";]+)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8';
  const packed = headers['content-encoding'];
  if (!/^utf-?8$/i.test(charset.trim())) throw errors.unsupportedMediaType(headers['content-type']);
  if (packed !== undefined && packed !== 'identity')
    throw errors.unsupportedMediaType(`content-encoding ${packed}`);
}

/**
 * Which numbers become ExactNumber, for values that go to PostgreSQL. `exact`: those that a double cannot represent.
 * `rows`: all that JavaScript would write differently. `values`: these too, except in the fields that the service reads
 * itself, those of the body and of its statements.
 */
export type Numbers = 'double' | 'exact' | 'rows' | 'values';

const exactness = { double: null, exact: 'value', rows: 'spelling', values: 'spelling' } as const;

function* withPlainFields(body: unknown, numbers: Numbers): Slices<unknown> {
  if (numbers !== 'values' || !isJsonObject(body)) return body;
  makePlain(body);
  // The schema refuses more statements.
  const statements = Array.isArray(body.statements) ? body.statements.slice(0, maxStatements) : [];
  for (const statement of statements) {
    if (isJsonObject(statement)) makePlain(statement);
    // Each can have thousands of names.
    yield;
  }
  return body;
}

function makePlain(fields: Record<string, unknown>): void {
  for (const name of Object.keys(fields)) {
    const value = fields[name];
    if (value instanceof ExactNumber && value.isDouble) fields[name] = Number(value.text);
  }
}

/** undefined for an empty body: the schema decides whether a body is required. */
function parseSmallBody(bytes: Buffer, numbers: Numbers): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw errors.invalidJson('it is not valid UTF-8.');
  const text = bytes.toString('utf8');
  try {
    const exact = exactness[numbers];
    return exact ? atOnce(withPlainFields(parseJsonText(text, exact), numbers)) : readWellFormed(text);
  } catch (error) {
    if (error instanceof SyntaxError) throw errors.invalidJson(explain(error, text));
    throw error;
  }
}

/** Columns count UTF-16 code units, as they do for small bodies. */
async function explainAt(bytes: Buffer, offset: number | null): Promise<string> {
  if (offset === null) return unclear;
  if (offset >= bytes.length) return 'unexpected end of the body.';
  let [line, column] = [1, 1];
  for (let at = 0; at < offset; at++) {
    const byte = bytes[at] as number;
    if (byte === 10) [line, column] = [line + 1, 1];
    else if ((byte & 0xc0) !== 0x80) column += byte >= 0xf0 ? 2 : 1;
    if (at % sliceBytes === 0) await turn();
  }
  return `unexpected character at line ${line}, column ${column}.`;
}

const unclear = 'check its quotes, commas and end.';

/** V8's message quotes the input, which may contain a password. The position is enough. */
function explain(error: Error, text: string): string {
  const position = /position (\d+)/.exec(error.message)?.[1];
  if (position === undefined) return text.trim() === '' ? 'it contains only white space.' : unclear;
  if (Number(position) >= text.length) return 'unexpected end of the body.';
  const before = text.slice(0, Number(position)).split('\n');
  return `unexpected character at line ${before.length}, column ${(before.at(-1) ?? '').length + 1}.`;
}
