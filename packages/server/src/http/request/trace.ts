// The id of a request, and the trace of the caller's own program that it belongs to (W3C Trace Context).
import type { IncomingHttpHeaders } from 'node:http';

export type Trace = Readonly<{ traceId: string; spanId: string }>;

/** The caller's id; else the caller's trace and span, so that our log lines can be found by them; else a new one. */
export function requestIdOf(headers: IncomingHttpHeaders): string {
  const given = readRequestId(headers['x-request-id']);
  if (given !== null) return given;
  const trace = readTrace(headers);
  return trace ? `${trace.traceId}-${trace.spanId}` : crypto.randomUUID();
}

/** null: none, or not one. Other fields of the header and `tracestate` are not used. */
export function readTrace({ traceparent }: IncomingHttpHeaders): Trace | null {
  if (typeof traceparent !== 'string' || traceparent.length > 512) return null;
  const [, version, traceId = '', spanId = '', more] = form.exec(traceparent) ?? [];
  // Version 00 has nothing behind the flags. Later ones may have, ff is invalid.
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return null;
  return /^0+$/.test(traceId) || /^0+$/.test(spanId) ? null : { traceId, spanId };
}

const form = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;

/** An id from the caller is used if it is safe in a header and in a log line. */
function readRequestId(header: string | string[] | undefined): string | null {
  return typeof header === 'string' && /^[\w.:/+=-]{1,128}$/.test(header) ? header : null;
}
