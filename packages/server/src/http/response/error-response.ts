// The only place where an error becomes a response, and is logged if the service caused it.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ErrorBody } from '@rowhouse/api';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { explainResources } from '../../postgres/admin/resource-errors.ts';
import type { HttpExchange } from '../http-exchange.ts';
import { unknownPosition, wantsPosition } from '../request/staleness.ts';
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

export function errorResponder(log: Logger, { statusOf, bodyOf }: Voice = ownVoice) {
  return (
    thrown: FastifyError | RowhouseError,
    request: FastifyRequest,
    reply: FastifyReply,
  ): FastifyReply => {
    const error = readFastifyError(thrown, request) ?? toRowhouseError(thrown, request.raw);
    logOurs(log, error, request.id);
    const status = statusOf(error);
    // A repeat by Idempotency-Key depends on the error itself, not on how it is presented.
    request.failure = error;
    return reply
      .headers(headersOf(error, status, request.id))
      .headers(wantsPosition(request) ? unknownPosition : {})
      .status(status)
      .send(bodyOf(error, request.id));
  };
}

/** Sends an error as the response without the framework, and returns the error that was sent. */
export function respondWithError(
  log: Logger,
  thrown: Error,
  exchange: HttpExchange,
  requestId: string,
): RowhouseError {
  // The whole body of the request has arrived.
  const error = toRowhouseError(thrown, { method: exchange.method, destroyed: false, complete: true });
  logOurs(log, error, requestId);
  const body = Buffer.from(JSON.stringify(errorBody(error, requestId)));
  const head = {
    ...headersOf(error, error.status, requestId),
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(body.length),
  };
  exchange.send(error.status, Object.entries(head).flat(), body);
  return error;
}

function logOurs(log: Logger, error: RowhouseError, requestId: string): void {
  if (error.status < 500) return;
  const level = error.code === 'internal_error' ? 'error' : 'warn';
  log[level]({ request_id: requestId, code: error.code, err: error.cause ?? error }, error.message);
}

function headersOf(error: RowhouseError, status: number, requestId: string): Record<string, string> {
  return {
    // Errors can occur before the hooks that set this header.
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

/** Answers input that is not a valid request, on the bare socket. */
export function respondToBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && isUploading(socket)) return;
  // More bytes follow the last request of the connection. The response to that request closes the connection.
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

/** Answers a request that can be read in two ways (http/fast/request-form.ts), and does not read what follows it on the connection. */
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

/** The outcome of a request that only reads is certain: it changed nothing. */
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
