// Reads the head of an HTTP/1.1 request, if it has the ordinary form. It accepts only what has one meaning: known headers,
// each once, a length in digits, no other framing. Node's parser reads all other requests.
import type { IncomingHttpHeaders } from 'node:http';
import { apiPrefix } from '@rowhouse/api';
import { isHost } from '../request/host.ts';

export type RequestHead = {
  method: string;
  /** The path with its query string. */
  url: string;
  headers: IncomingHttpHeaders;
  /** With the empty line at its end. */
  headBytes: number;
  bodyBytes: number;
};

const maxHeadBytes = 8 * 1024;
const headEnd = '\r\n\r\n';
/** Each part ends at a character that it cannot contain, so that matching takes linear time. */
const ordinary = new RegExp(
  `^(GET|POST|PATCH|DELETE) ((?:${apiPrefix}/projects|/sql)[\\w.~%!$&'()*+,;=:@/?-]*) HTTP/1\\.1\\r\\n(?:[A-Za-z0-9-]+:[\\x20-\\x7e]*\\r\\n)+$`,
);
/** Headers that mean the same to everyone if they come once. Host, Connection and Content-Length are checked below. */
const knownHeaders = new Set([
  'accept',
  'accept-encoding',
  'accept-language',
  'authorization',
  'cache-control',
  'connection',
  'content-length',
  'content-type',
  'cookie',
  'dnt',
  'forwarded',
  'host',
  'idempotency-key',
  'origin',
  'pragma',
  'prefer',
  'priority',
  'referer',
  'rowhouse-max-staleness',
  'rowhouse-min-position',
  'traceparent',
  'tracestate',
  'user-agent',
  'via',
]);
const knownPrefix = /^(?:x|sec|cf|neon)-/;
const digits = /^\d{1,9}$/;

/** null: not complete, or not in the ordinary form. */
export function readRequestHead(bytes: Buffer): RequestHead | null {
  const size = bytes.indexOf(headEnd, 0, 'latin1');
  if (size < 0 || size > maxHeadBytes) return null;
  // With the end of its last line.
  const text = bytes.toString('latin1', 0, size + 2);
  const [, method, url] = ordinary.exec(text) ?? [];
  if (method === undefined || url === undefined) return null;
  const headers: Record<string, string> = {};
  for (let at = text.indexOf('\r\n') + 2; at < text.length; ) {
    const lineEnd = text.indexOf('\r\n', at);
    const colon = text.indexOf(':', at);
    const name = text.slice(at, colon).toLowerCase();
    if (!(knownHeaders.has(name) || knownPrefix.test(name)) || headers[name] !== undefined) return null;
    headers[name] = text.slice(colon + 1, lineEnd).trim();
    at = lineEnd + 2;
  }
  const { host, connection, 'content-length': given } = headers;
  if (
    host === undefined ||
    !isHost(host) ||
    (connection !== undefined && connection.toLowerCase() !== 'keep-alive')
  )
    return null;
  if (given !== undefined && !digits.test(given)) return null;
  return { method, url, headers, headBytes: size + headEnd.length, bodyBytes: Number(given ?? 0) };
}
