// The body of a request for data: what type it has, how it is read, parsed and validated. One that came whole with its head
// costs no await.
import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { errors } from '../../errors/errors.ts';
import type { SentRows } from '../../tables/import/array-rows.ts';
import type { ImportFormat } from '../../tables/import/import.ts';
import { BodyMemory, readBody } from '../request/body-memory.ts';
import { checkEncoding, parseBody } from '../request/json-body.ts';
import { hashBytes, hashStream, Repeat, readRepeatKey } from '../request/repeats.ts';
import { checkQueryString, validatorOf } from '../request/validation.ts';
import type { DataRequest, Step } from './data-request.ts';

/** Rows that are not read into memory. */
export type SentStream = Readonly<{ format: ImportFormat; pieces: AsyncIterable<Buffer> }>;

export const receiveBody: Step = (request) => {
  const { exchange, route, deadline } = request;
  const { headers, body } = exchange;
  if (route.method === 'GET') return;
  const key = route.method === 'POST' ? readRepeatKey(headers) : null;
  const format = checkType(request, headers);
  if (format) {
    request.body = { format, pieces: takeStream(request, key) } satisfies SentStream;
    return;
  }
  if (Buffer.isBuffer(body)) return parse(request, body, key);
  deadline.pause();
  const memory = new BodyMemory(request.caller?.accountId ?? '', (over) => {
    request.memory = memory;
    exchange.onEnd(over);
  });
  return readBody(body, { headers, maxBytes: route.bodyLimit, memory })
    .then((bytes) => parse(request, bytes, key, memory))
    .finally(() => deadline.resume());
};

/** null: JSON, or no body at all. */
function checkType({ route }: DataRequest, headers: IncomingHttpHeaders): ImportFormat | null {
  const given = headers['content-type'];
  if (given === 'application/json' && headers['content-encoding'] === undefined) return null;
  if (given === undefined) {
    if (hasBody(headers)) throw errors.unsupportedMediaType(given);
    return null;
  }
  const type = given.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  const format = Object.hasOwn(route.streamed ?? {}, type) ? route.streamed?.[type] : undefined;
  const isJson = type === 'application/json' || route.jsonTypes?.includes(type);
  if (!isJson && !format) throw errors.unsupportedMediaType(given);
  checkEncoding(headers);
  return format ?? null;
}

function hasBody(headers: IncomingHttpHeaders): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) !== 0;
}

function takeStream(request: DataRequest, key: string | null): AsyncIterable<Buffer> {
  const { body, url, headers } = request.exchange;
  if (Buffer.isBuffer(body)) {
    if (key !== null) request.repeat = new Repeat(key, hashBytes(url, body));
    return Readable.from([body]);
  }
  if (key === null) return body;
  const hashed = hashStream(url, headers, body);
  request.repeat = new Repeat(key, hashed);
  return hashed.stream;
}

function parse(
  request: DataRequest,
  bytes: Buffer,
  key: string | null,
  memory: BodyMemory | null = null,
): void | Promise<void> {
  const { route, exchange } = request;
  if (key !== null) request.repeat = new Repeat(key, hashBytes(exchange.url, bytes));
  const parsing = () => parseBody(bytes, memory, route.numbers);
  if (route.takesRows) {
    // Only its table tells what can be made of it.
    request.body = { bytes, parse: parsing } satisfies SentRows;
    return;
  }
  const parsed = parsing();
  if (!(parsed instanceof Promise)) request.body = parsed;
  else
    return parsed.then((body) => {
      request.body = body;
    });
}

export const validate: Step = (request) => {
  const { route, deadline, rawQuery } = request;
  if (!route.input) return;
  const asked = route.hasTimeout && (request.body as { timeout_ms?: unknown } | null | undefined)?.timeout_ms;
  if (typeof asked === 'number' && asked >= 1) deadline.allow(asked);
  const checked = validatorOf(route.input, 'body')(request.body);
  if ('error' in checked) throw checked.error;
  request.body = checked.value;
  if (rawQuery !== '') checkQueryString(rawQuery);
};
