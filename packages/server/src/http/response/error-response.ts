// The only place where an error becomes a response, and is logged if the service caused it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ErrorBody } from '@rowhouse/api';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { explainResources } from '../../postgres/admin/resource-errors.ts';
import type { Head, HttpExchange } from '../http-exchange.ts';
import { isUploading } from '../request/upload-time.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The error of the response, if the request failed. */
    failure: RowhouseError | null;
  }
}

/** How an error is presented: its status and its body. */
export type Voice = {
  statusOf(error: RowhouseError): number;
  bodyOf(error: RowhouseError, requestId: string): ErrorBody;
};
const ownVoice: Voice = { statusOf: (error) => error.status, bodyOf: errorBody };

export function errorResponder(log: Logger) {
  return (
    thrown: FastifyError | RowhouseError,
    request: FastifyRequest,
    reply: FastifyReply,
  ): FastifyReply => {
    const error = readFastifyError(thrown, request) ?? toRowhouseError(thrown, request.raw);
    logOurs(log, error, request.id);
    request.failure = error;
    return reply
      .headers(headersOf(error, error.status, request.id))
      .status(error.status)
      .send(errorBody(error, request.id));
  };
}

type Failed = Readonly<{ exchange: HttpExchange; requestId: string; voice?: Voice | undefined }>;

/** The same without the framework: what to respond to a request that failed. */
export function respondingTo(
  log: Logger,
  thrown: Error,
  { exchange, requestId, voice = ownVoice }: Failed,
): { error: RowhouseError; status: number; head: Head; body: Buffer } {
  const { method, body: sent } = exchange;
  const received = Buffer.isBuffer(sent) ? { destroyed: false, complete: true } : sent;
  const error = toRowhouseError(thrown, {
    method,
    destroyed: received.destroyed,
    complete: received.complete,
  });
  logOurs(log, error, requestId);
  const status = voice.statusOf(error);
  const { 'x-request-id': _already, ...head } = headersOf(error, status, requestId);
  const body = Buffer.from(JSON.stringify(voice.bodyOf(error, requestId)));
  return { error, status, head: Object.entries(head).flat(), body };
}

function logOurs(log: Logger, error: RowhouseError, requestId: string): void {
  if (error.status < 500) return;
  const level = error.code === 'internal_error' ? 'error' : 'warn';
  log[level]({ request_id: requestId, code: error.code, err: error.cause ?? error }, error.message);
}

function headersOf(error: RowhouseError, status: number, requestId: string): Record<string, string> {
  return {
    // Also for errors that occur before the hooks that set it.
    'x-request-id': requestId,
    ...(error.retryAfterS !== undefined && { 'retry-after': String(error.retryAfterS) }),
    ...(status === 401 && { 'www-authenticate': 'Bearer realm="rowhouse"' }),
    ...(error.code === 'method_not_allowed' && { allow: allowedOf(error).join(', ') }),
  };
}

export function errorBody(error: RowhouseError, requestId: string): ErrorBody {
  return {
    ok: false,
    error: {
      code: error.code,
      message: error.message,
      ...(error.hint !== undefined && { hint: error.hint }),
      ...(error.details !== undefined && { details: error.details }),
      ...(error.sql !== undefined && { sql: error.sql }),
    },
    request_id: requestId,
  };
}

/** For input that is not a valid request: answered on the bare socket. */
export function respondToBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isUploading(socket)) return;
  // Bytes behind the last request of a connection, whose response closes it.
  if (error.code === 'HPE_CLOSED_CONNECTION') return;
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const answer =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? errors.headersTooLarge()
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? errors.requestTimeout()
        : errors.invalidRequest([{ path: '', problem: 'the request is not valid HTTP/1.1' }]);
  const requestId = crypto.randomUUID();
  const body = JSON.stringify(errorBody(answer, requestId));
  socket.end(
    `HTTP/1.1 ${answer.status} ${answer.code}\r\ncontent-type: application/json; charset=utf-8\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nx-request-id: ${requestId}\r\nconnection: close\r\n\r\n${body}`,
  );
}

/** For a request with two meanings (http/fast/request-form.ts). What follows it on its connection is not read. */
export function respondToAmbiguous(error: RowhouseError, response: ServerResponse): void {
  const requestId = crypto.randomUUID();
  const body = JSON.stringify(errorBody(error, requestId));
  response.writeHead(error.status, {
    ...headersOf(error, error.status, requestId),
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    connection: 'close',
  });
  response.end(body);
}

type Received = Pick<IncomingMessage, 'method' | 'destroyed' | 'complete'>;

function toRowhouseError(thrown: Error, request: Received): RowhouseError {
  if (thrown instanceof RowhouseError) return asRead(thrown, request);
  const shortage = explainResources(thrown);
  if (shortage) return shortage;
  // The caller disconnected while it was sending the request.
  if (request.destroyed && !request.complete) return errors.requestTimeout();
  return errors.internal(thrown);
}

/** For a request that only reads, the outcome is certain: nothing was changed. */
function asRead(error: RowhouseError, { method }: Pick<Received, 'method'>): RowhouseError {
  const isRead = method === 'GET' || method === 'HEAD';
  return isRead && error.code === 'outcome_unknown' ? errors.unavailable(error.cause) : error;
}

function readFastifyError(
  thrown: FastifyError | RowhouseError,
  request: FastifyRequest,
): RowhouseError | null {
  if (thrown instanceof RowhouseError) return asRead(thrown, request.raw);
  const { code, statusCode, message } = thrown;
  switch (code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return errors.unsupportedMediaType(request.headers['content-type']);
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return errors.payloadTooLarge(request.routeOptions.bodyLimit);
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return errors.invalidRequest([
        { path: 'Content-Length', problem: 'does not match the length of the body' },
      ]);
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return errors.routeNotFound(request.method, request.url);
    case 'FST_ERR_BAD_URL':
      return errors.invalidRequest([{ path: '', problem: 'the path must be a valid percent-encoded URL' }]);
    default:
      // Other errors of Fastify with a status below 500 are mistakes of the caller.
      return code?.startsWith('FST_') && statusCode && statusCode < 500
        ? errors.invalidRequest([{ path: '', problem: message }])
        : null;
  }
}

function allowedOf(error: RowhouseError): string[] {
  return (error.details as { allowed: string[] }).allowed;
}
