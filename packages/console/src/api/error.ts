// A failed request, with what a person needs to go on: the message, the hint, and PostgreSQL's own fields.
import type { ErrorBody } from '@rowhouse/api';

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string | undefined;
  readonly details: unknown;
  readonly sql: Record<string, string> | undefined;
  readonly requestId: string | undefined;
  /** How long to wait before another attempt. */
  readonly retryAfterS: number | undefined;

  constructor(
    status: number,
    body: Pick<ErrorBody, 'error'> & { request_id?: string },
    retryAfterS?: number | undefined,
  ) {
    super(body.error.message);
    this.status = status;
    this.code = body.error.code;
    this.hint = body.error.hint;
    this.details = body.error.details;
    this.sql = body.error.sql;
    this.requestId = body.request_id;
    this.retryAfterS = retryAfterS;
  }
}

/** The service did not answer, or something between it and the browser answered. */
export function unreachable(status = 0): ApiError {
  const message = status === 0 ? 'The service cannot be reached.' : `The service answered with ${status}.`;
  return new ApiError(status, {
    error: { code: 'unreachable', message, hint: 'Check that it is running and try again.' },
  });
}

export function toApiError(error: unknown): ApiError {
  if (error instanceof ApiError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ApiError(0, { error: { code: 'unexpected', message } });
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError';
}
