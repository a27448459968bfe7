// Refuses requests that have two meanings: a proxy in front may have checked the other one. Node's parser accepts them.
// What fast-connections.ts reads has one meaning already.
import type { IncomingMessage } from 'node:http';
import { errors, type RowhouseError } from '../../errors/errors.ts';
import { isHost } from '../request/host.ts';

type Received = Pick<IncomingMessage, 'httpVersion' | 'headers' | 'rawHeaders' | 'url' | 'method'>;

/**
 * Headers that the service reads as one value. Of some repeated headers Node keeps the first, others it joins. Transfer-Encoding
 * is read as one value, too: only `chunked` is supported.
 */
const single = new Set([
  'authorization',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'idempotency-key',
  'origin',
  'rowhouse-max-staleness',
  'traceparent',
  'transfer-encoding',
  'upload-offset',
  'x-api-key',
  'x-client-address',
  'x-request-id',
]);

const singlePrefix = /^(?:mcp|neon|sec-fetch)-/;

/** A whole address as the target, as proxies get it. */
const wholeAddress = /^https?:\/\/([^/?#]*)([/?].*)?$/i;

/**
 * null: the request has one meaning. A whole address in its target becomes a path, because nothing behind this expects one.
 */
export function refuseAmbiguous(request: Received): RowhouseError | null {
  const { httpVersion, headers } = request;
  if (httpVersion !== '1.1' && httpVersion !== '1.0')
    return refusal('', `the service speaks HTTP/1.1, and the request says HTTP/${httpVersion}`);
  const repeated = findRepeated(request.rawHeaders);
  if (repeated) return refusal(repeated, 'this header must not be sent more than once');
  const host = headers.host;
  // A request of HTTP/1.0 needs none: health checks of some proxies have none.
  if (host === undefined ? httpVersion === '1.1' : !isHost(host))
    return refusal('host', host === undefined ? 'this header is missing' : 'this is not a host with a port');
  const encoding = headers['transfer-encoding'];
  if (encoding !== undefined && (httpVersion === '1.0' || encoding.toLowerCase() !== 'chunked'))
    return refusal('transfer-encoding', 'only "chunked" is supported, with HTTP/1.1');
  return readTarget(request);
}

function readTarget(request: Received): RowhouseError | null {
  const { url = '', method, headers } = request;
  if (url.startsWith('/') || (url === '*' && method === 'OPTIONS')) return null;
  const [, authority, rest = ''] = wholeAddress.exec(url) ?? [];
  if (authority === undefined) return refusal('', 'the target of the request must be a path');
  if (authority.toLowerCase() !== headers.host?.toLowerCase())
    return refusal('host', 'the target of the request names another host than this header');
  request.url = rest.startsWith('/') ? rest : `/${rest}`;
  return null;
}

function findRepeated(rawHeaders: readonly string[]): string | null {
  const seen = new Set<string>();
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = (rawHeaders[index] as string).toLowerCase();
    if (!single.has(name) && !singlePrefix.test(name)) continue;
    if (seen.has(name)) return name;
    seen.add(name);
  }
  return null;
}

function refusal(path: string, problem: string): RowhouseError {
  return errors.invalidRequest([{ path, problem }]);
}
