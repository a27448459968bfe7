// Reads JSON bodies strictly: valid UTF-8, valid JSON, no text that PostgreSQL could not store unchanged.
import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { errors } from '../errors.ts';
import { turn } from '../postgres/fair-reads.ts';
import { parseJsonText, readWellFormed } from '../query/json/json-text.ts';
import { LargeSyntaxError, parseLargeJson, sliceBytes } from '../query/json/large-json.ts';
import { UnparsedRows } from '../tables/import/array-rows.ts';
import { BodyMemory, noteResponse, readBody } from './body-memory.ts';

/** Parses bodies of this content type as JSON. */
export function takeJson(app: FastifyInstance, contentType: string): void {
  app.addHook('preParsing', noteResponse);
  app.addContentTypeParser(contentType, (request, payload, done) => {
    parseBody(request, payload).then((body) => done(null, body), done);
  });
}

async function parseBody(request: FastifyRequest, payload: Readable): Promise<unknown> {
  const { config } = request.routeOptions;
  checkEncoding(request.headers);
  const memory = new BodyMemory(request);
  const bytes = await readBody(request, payload, memory);
  const parse = async () =>
    bytes.length > sliceBytes ? parseLargeBody(bytes, memory, config) : parseJsonBody(bytes, config);
  return config.takesUnparsed?.(request, bytes) ? new UnparsedRows(bytes, parse) : parse();
}

/** Like `parseJsonBody`, in slices, so that other requests are served in between. */
async function parseLargeBody(bytes: Buffer, memory: BodyMemory, { exactNumbers = false }): Promise<unknown> {
  try {
    return await parseLargeJson(bytes, { exact: exactNumbers, onValues: (more) => memory.addValues(more) });
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

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Parse numbers that a double cannot represent as ExactNumber, for values that go to PostgreSQL. */
    exactNumbers?: boolean;
    /** Whether the route gets this body as UnparsedRows. */
    takesUnparsed?: (request: FastifyRequest, bytes: Buffer) => boolean;
  }
}

/** undefined for an empty body: the schema decides whether a body is required. */
export function parseJsonBody(bytes: Buffer, { exactNumbers = false } = {}): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw errors.invalidJson('it is not valid UTF-8.');
  const text = bytes.toString('utf8');
  try {
    return exactNumbers ? parseJsonText(text) : readWellFormed(text);
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
