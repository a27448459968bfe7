// The requests that come most, in their ordinary form, answered without the framework: hooks, routing and header handling
// cost more than the statement. Whatever is unusual about a request (a browser's origin, a key not seen before, another
// encoding, a large body) goes the long way, which answers the same; a test compares the two.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { apiPrefix, RunQuery } from '@rowhouse/api';
import type { Caller } from '../keys/caller.ts';
import { hasRepeated, readRequestId } from './caller.ts';
import type { Deps } from './deps.ts';
import { respondWithError } from './error-response.ts';
import { parseJsonBody } from './json-body.ts';
import { answerQuery, queryRoute } from './query.ts';
import { json, ResponseReader } from './reader.ts';
import type { Finished } from './request-log.ts';
import { validatorCompiler } from './validation.ts';

/** Answers the request and says true, or leaves it untouched and says false. */
export type ShortWay = (request: IncomingMessage, response: ServerResponse) => boolean;

const start = `${apiPrefix}/projects/`;
const end = '/query';
const maxBodyBytes = 256 * 1024;
const jsonType = /^application\/json(; ?charset=utf-8)?$/i;

export function openShortWay(deps: Deps, onFinished: (finished: Finished) => void): ShortWay {
  const validate = validatorCompiler({ schema: RunQuery, httpPart: 'body', method: 'POST', url: queryRoute });

  return (request, response) => {
    const { url = '', method, headers } = request;
    if (method !== 'POST' || !url.startsWith(start) || !url.endsWith(end)) return false;
    const slug = url.slice(start.length, -end.length);
    const caller = ordinaryCaller(deps, request, slug);
    if (!caller) return false;
    const startedAt = performance.now();
    const requestId = readRequestId(headers['x-request-id']) ?? crypto.randomUUID();
    const reader = new ResponseReader(response, () => ({ 'x-request-id': requestId }));
    const finish = (status: number) =>
      onFinished({
        requestId,
        method,
        route: queryRoute,
        path: url,
        status,
        ms: performance.now() - startedAt,
        keyId: caller.keyId,
      });
    const fail = (error: unknown) => {
      if (reader.hasBegun) {
        deps.log.warn({ request_id: requestId, err: error }, 'a result broke off');
        reader.breakOff();
        finish(200);
      } else finish(respondWithError(deps.log, error as Error, request, response, requestId));
    };
    readBody(request, (body) => {
      try {
        const checked = validate(parseJsonBody(body, { exactNumbers: true })) as {
          value?: RunQuery;
          error?: Error;
        };
        if (checked.error) throw checked.error;
        const project = { id: caller.projectId, passwordVersion: caller.passwordVersion };
        answerQuery(deps, caller, project, checked.value as RunQuery, reader).then((answer) => {
          if (answer === null) reader.end();
          else {
            const size = String(answer.length);
            response.writeHead(200, [
              'content-type',
              json,
              'content-length',
              size,
              'x-request-id',
              requestId,
            ]);
            response.end(answer);
          }
          finish(200);
        }, fail);
      } catch (error) {
        fail(error);
      }
    });
    return true;
  };
}

/** The caller by memory alone, if this is its own project and nothing about the request needs a closer look. */
function ordinaryCaller(
  { keyRing }: Deps,
  { headers, rawHeaders }: IncomingMessage,
  slug: string,
): Exclude<Caller, { kind: 'account' }> | null {
  const key = headers['x-api-key'];
  const size = Number(headers['content-length']);
  if (
    typeof key !== 'string' ||
    headers.authorization !== undefined ||
    headers.origin !== undefined ||
    headers.expect !== undefined ||
    headers['content-encoding'] !== undefined ||
    headers['idempotency-key'] !== undefined ||
    headers['transfer-encoding'] !== undefined ||
    !(size > 0 && size <= maxBodyBytes) ||
    !jsonType.test(headers['content-type'] ?? '') ||
    hasRepeated(rawHeaders)
  )
    return null;
  const caller = keyRing.recall(key);
  return caller && caller.kind !== 'account' && caller.slug === slug ? caller : null;
}

/** The length is known and small; what ends early is the server's own business. */
function readBody(request: IncomingMessage, use: (body: Buffer) => void): void {
  const pieces: Buffer[] = [];
  request.on('data', (piece: Buffer) => pieces.push(piece));
  request.on('end', () => use(pieces.length === 1 ? (pieces[0] as Buffer) : Buffer.concat(pieces)));
  request.on('error', () => {});
}
