// Reading JSON bodies strictly: valid UTF-8, valid JSON, no text that PostgreSQL could not keep as it is.
import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { errors } from '../errors.ts';
import { parseJsonText, readWellFormed } from '../query/json-text.ts';

/** Bodies of this type are JSON. */
export function takeJson(app: FastifyInstance, contentType: string): void {
  app.addContentTypeParser(contentType, { parseAs: 'buffer' }, (request, body, done) => {
    try {
      checkEncoding(request.headers);
      done(null, parseJsonBody(body as Buffer, request.routeOptions.config));
    } catch (error) {
      done(error as Error);
    }
  });
}

/** A body that is packed or in another alphabet would be read as something else than was meant. */
export function checkEncoding(headers: IncomingHttpHeaders): void {
  const charset = /charset="?([^";]+)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8';
  const packed = headers['content-encoding'];
  if (!/^utf-?8$/i.test(charset.trim())) throw errors.unsupportedMediaType(headers['content-type']);
  if (packed !== undefined && packed !== 'identity')
    throw errors.unsupportedMediaType(`content-encoding ${packed}`);
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Numbers that doubles cannot hold come as ExactNumber: for values that go to PostgreSQL. */
    exactNumbers?: boolean;
  }
}

/** undefined for an empty body: the schema decides whether one is needed. */
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

/** V8's message quotes the input, which may hold a password; the position says enough. */
function explain(error: Error, text: string): string {
  const position = /position (\d+)/.exec(error.message)?.[1];
  if (position === undefined)
    return text.trim() === '' ? 'it is blank.' : 'look at quotes, commas and where it ends.';
  if (Number(position) >= text.length) return 'it ends too early.';
  const before = text.slice(0, Number(position)).split('\n');
  return `unexpected character at line ${before.length}, column ${(before.at(-1) ?? '').length + 1}.`;
}
