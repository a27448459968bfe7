// Reading JSON bodies strictly: valid UTF-8, valid JSON, no text that PostgreSQL could not keep as it is.
import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';
import { errors } from '../errors.ts';

/** A body that is packed or in another alphabet would be read as something else than was meant. */
export function checkEncoding(headers: IncomingHttpHeaders): void {
  const charset = /charset="?([^";]+)/i.exec(headers['content-type'] ?? '')?.[1] ?? 'utf-8';
  const packed = headers['content-encoding'];
  if (!/^utf-?8$/i.test(charset.trim())) throw errors.unsupportedMediaType(headers['content-type']);
  if (packed !== undefined && packed !== 'identity')
    throw errors.unsupportedMediaType(`content-encoding ${packed}`);
}

/** undefined for an empty body: the schema decides whether one is needed. */
export function parseJsonBody(bytes: Buffer): unknown {
  if (bytes.length === 0) return undefined;
  if (!isUtf8(bytes)) throw errors.invalidJson('it is not valid UTF-8.');
  const text = bytes.toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw errors.invalidJson(explain(error as Error, text));
  }
  // Half of a surrogate pair can only come from an escape; as UTF-8 it would silently become another character.
  if (/\\u[dD][89a-fA-F]/.test(text) && !isWellFormed(value)) {
    throw errors.invalidJson('it holds half of a surrogate pair (\\ud800 to \\udfff).');
  }
  return value;
}

/** V8's message quotes the input, which may hold a password; the position says enough. */
function explain(error: Error, text: string): string {
  const position = /position (\d+)/.exec(error.message)?.[1];
  if (position === undefined)
    return text.trim() === '' ? 'it is blank.' : 'look at quotes, commas and where it ends.';
  const before = text.slice(0, Number(position)).split('\n');
  return `unexpected character at line ${before.length}, column ${(before.at(-1) ?? '').length + 1}.`;
}

/** Without recursion: a body may be nested as deep as its size allows. */
function isWellFormed(root: unknown): boolean {
  const pending: unknown[] = [root];
  while (pending.length > 0) {
    const value = pending.pop();
    if (typeof value === 'string' && !value.isWellFormed()) return false;
    if (typeof value !== 'object' || value === null) continue;
    for (const [name, entry] of Object.entries(value)) pending.push(name, entry);
  }
  return true;
}
