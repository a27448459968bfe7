// The one place where an error becomes a response, and is logged if it is ours.
import type { Socket } from 'node:net';
import type { ErrorBody } from '@rowhouse/api';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { errors, RowhouseError } from '../errors.ts';
import { PostgresError } from '../postgres/database.ts';

export function errorResponder(log: Logger) {
  return (
    thrown: FastifyError | RowhouseError,
    request: FastifyRequest,
    reply: FastifyReply,
  ): FastifyReply => {
    const error = toRowhouseError(thrown, request);
    if (error.status >= 500) {
      const level = error.code === 'internal_error' ? 'error' : 'warn';
      log[level]({ request_id: request.id, code: error.code, err: error.cause ?? error }, error.message);
    }
    // Also for errors from before the hooks that set it.
    reply.header('x-request-id', request.id);
    if (error.retryAfterS !== undefined) reply.header('retry-after', String(error.retryAfterS));
    if (error.status === 401) reply.header('www-authenticate', 'Bearer realm="rowhouse"');
    if (error.code === 'method_not_allowed') reply.header('allow', allowedOf(error).join(', '));
    return reply.status(error.status).send(errorBody(error, request.id));
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

/** For what is not even a request: answered on the bare socket. */
export function respondToBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const answer =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? errors.headersTooLarge()
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? errors.requestTimeout()
        : errors.invalidRequest([{ path: '', problem: 'this is not a valid HTTP/1.1 request' }]);
  const requestId = crypto.randomUUID();
  const body = JSON.stringify(errorBody(answer, requestId));
  socket.end(
    `HTTP/1.1 ${answer.status} ${answer.code}\r\ncontent-type: application/json; charset=utf-8\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nx-request-id: ${requestId}\r\nconnection: close\r\n\r\n${body}`,
  );
}

function toRowhouseError(thrown: FastifyError | RowhouseError, request: FastifyRequest): RowhouseError {
  if (thrown instanceof RowhouseError) return thrown;
  // Our own statement met a server without memory, locks or connections left (class 53).
  if (thrown instanceof PostgresError && thrown.sqlstate.startsWith('53')) return errors.unavailable(thrown);
  // The caller went away in the middle of its own request.
  if (request.raw.destroyed && !request.raw.complete) return errors.requestTimeout();
  switch (thrown.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return errors.unsupportedMediaType(request.headers['content-type']);
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return errors.payloadTooLarge(request.routeOptions.bodyLimit);
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return errors.invalidRequest([{ path: 'Content-Length', problem: 'does not fit the body that came' }]);
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return errors.routeNotFound(request.method, request.url);
    case 'FST_ERR_BAD_URL':
      return errors.invalidRequest([{ path: '', problem: 'the path is not a valid percent-encoded URL' }]);
    default:
      // Whatever else Fastify itself refuses is the caller's doing.
      return thrown.code?.startsWith('FST_') && thrown.statusCode && thrown.statusCode < 500
        ? errors.invalidRequest([{ path: '', problem: thrown.message }])
        : errors.internal(thrown);
  }
}

function allowedOf(error: RowhouseError): string[] {
  return (error.details as { allowed: string[] }).allowed;
}
