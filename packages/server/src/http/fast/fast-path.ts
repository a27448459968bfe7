// Answers the most frequent requests, in their ordinary form, without the framework: hooks, routing and header handling
// cost more than the statement. An unusual request (with an origin, an unknown key, another encoding, a large body) takes
// the path through the framework, which answers the same. A test compares the two.
import type { IncomingHttpHeaders } from 'node:http';
import { apiPrefix, RunQuery } from '@rowhouse/api';
import { errors, RowhouseError } from '../../errors/errors.ts';
import type { Caller } from '../../keys/caller.ts';
import { type Answer, HeldAnswer } from '../../query/exchange/held-answer.ts';
import type { ProjectLogin } from '../../servers/databases/provision.ts';
import type { Changed } from '../../tables/changes.ts';
import type { Deps } from '../deps.ts';
import type { HttpExchange } from '../http-exchange.ts';
import { parseJsonBody } from '../request/json-body.ts';
import { RequestDeadline } from '../request/request-deadline.ts';
import { mayWantRows } from '../request/row-format.ts';
import { stalenessHeader } from '../request/staleness.ts';
import { requestIdOf } from '../request/trace.ts';
import { validatorCompiler } from '../request/validation.ts';
import { respondWithError } from '../response/error-response.ts';
import type { Finished } from '../response/request-log.ts';
import { json, ResponseReader, sizeHeaders } from '../response/response-reader.ts';
import { answerQuery, queryRoute } from '../routes/query.ts';
import { answerInsert, answerPage, tableRoute } from '../routes/tables.ts';

/** Answers the request and returns true, or leaves it untouched and returns false. */
export type FastPath = (exchange: HttpExchange) => boolean;

type Asked = { slug: string; route: string; status: number; run: Run };
type Run = (
  caller: Caller,
  project: ProjectLogin,
  body: Buffer,
  reader: ResponseReader,
) => Promise<Answer | Changed>;

const start = `${apiPrefix}/projects/`;
/** The largest body that is parsed synchronously. */
export const maxBodyBytes = 64 * 1024;
const jsonType = /^application\/json(; ?charset=utf-8)?$/i;
const nothing = Buffer.alloc(0);

export function openFastPath(deps: Deps, onFinished: (finished: Finished) => void): FastPath {
  const validate = validatorCompiler({ schema: RunQuery, httpPart: 'body', method: 'POST', url: queryRoute });
  const runQuery: Run = (caller, project, body, reader) => {
    const checked = validate(parseJsonBody(body, { numbers: 'values' })) as {
      value?: RunQuery;
      error?: Error;
    };
    if (checked.error) throw checked.error;
    return answerQuery(deps, caller, project, checked.value as RunQuery, reader);
  };

  const read = (method: string, url: string): Asked | null => {
    if (!url.startsWith(start)) return null;
    const slash = url.indexOf('/', start.length);
    if (slash < 0) return null;
    const slug = url.slice(start.length, slash);
    if (method === 'POST' && url.length === slash + 6 && url.endsWith('/query'))
      return { slug, route: queryRoute, status: 200, run: runQuery };
    // The framework handles names with percent escapes.
    const [, name, query = ''] = url.startsWith('/tables/', slash)
      ? (tableUrl.exec(url.slice(slash + 8)) ?? [])
      : [];
    if (name === undefined) return null;
    if (method === 'POST') {
      const run: Run = (caller, project, body, reader) => {
        const rows = { bytes: body, parse: () => parseJsonBody(body, { numbers: 'rows' }) };
        return answerInsert(deps, caller, { project, name, rawQuery: query, reader }, rows);
      };
      return { slug, route: tableRoute, status: 201, run };
    }
    const run: Run = (caller, project, _body, reader) =>
      answerPage(deps, caller, { project, name, rawQuery: query, reader });
    return { slug, route: tableRoute, status: 200, run };
  };

  return (exchange) => {
    const { url, method, headers } = exchange;
    const asked = method === 'POST' || method === 'GET' ? read(method, url) : null;
    const caller = asked && ordinaryCaller(deps, exchange);
    const project = caller && deps.logins.recall(caller, asked.slug);
    // The framework refuses what is over the limit.
    if (!project || !deps.rates.admits(caller)) return false;
    const startedAt = performance.now();
    const requestId = requestIdOf(headers);
    const headersOf = () => ({ 'x-request-id': requestId });
    const deadline = new RequestDeadline((error) => answerError(error));
    const reader = new ResponseReader(exchange, headersOf, deadline, asked.status);
    const finish = (status: number, failure: RowhouseError | null = null) =>
      onFinished({
        requestId,
        method,
        route: asked.route,
        path: url,
        status,
        ms: performance.now() - startedAt,
        keyId: caller.keyId,
        projectId: project.id,
        failure,
        statement: deadline.statement,
        raw: exchange,
      });
    const answerError = (thrown: Error) => {
      const error = respondWithError(deps.log, thrown, exchange, requestId);
      finish(error.status, error);
    };
    const fail = (error: unknown) => {
      if (deadline.isOver) return;
      deadline.end();
      if (reader.hasBegun) {
        deps.log.warn({ request_id: requestId, err: error }, 'a response was cut off');
        reader.breakOff();
        finish(asked.status, error instanceof RowhouseError ? error : errors.internal(error));
      } else answerError(error as Error);
    };
    const succeed = (given: Answer | Changed) => {
      const isChange = given !== null && 'isNew' in given;
      const answer = isChange ? given.answer : given;
      if (deadline.isOver) {
        if (answer instanceof HeldAnswer) answer.release();
        return;
      }
      deadline.end();
      // An upsert that changed nothing created nothing.
      const status = isChange && !given.isNew ? 200 : asked.status;
      if (answer instanceof HeldAnswer) {
        reader.send(answer, method === 'POST' ? sizeHeaders(deps, project.id) : {}, status);
      } else if (answer === null) reader.end();
      else {
        const size = String(answer.length);
        const head = ['content-type', json, 'content-length', size, 'x-request-id', requestId];
        const room = method === 'POST' ? deps.query.admission.headroom.recall(project.id) : null;
        if (room) head.push('x-project-size', String(room.size_mb), 'x-project-limit', String(room.limit_mb));
        exchange.send(status, head, answer);
      }
      finish(status);
    };
    const run = (body: Buffer) => {
      deadline.start();
      try {
        asked.run(caller, project, body, reader).then(succeed, fail);
      } catch (error) {
        fail(error);
      }
    };
    if (method === 'GET') run(nothing);
    else exchange.readBody(run);
    return true;
  };
}

/** The part after /tables/: a plain name, and a query string. */
const tableUrl = /^([\w.-]+)(?:\?(.*))?$/;

/** The caller from the cache of known keys, if the request is an ordinary one. */
function ordinaryCaller({ keyRing }: Deps, exchange: HttpExchange): Caller | null {
  const { method, headers } = exchange;
  const key = headers['x-api-key'];
  if (
    typeof key !== 'string' ||
    headers.authorization !== undefined ||
    headers.origin !== undefined ||
    headers.expect !== undefined ||
    headers['content-encoding'] !== undefined ||
    headers['idempotency-key'] !== undefined ||
    headers[stalenessHeader] !== undefined ||
    headers['transfer-encoding'] !== undefined ||
    mayWantRows(headers.accept) ||
    !hasOrdinaryBody(method, headers)
  )
    return null;
  const caller = keyRing.recall(key);
  // The framework asks the table of roles.
  return caller?.kind === 'account' && caller.role !== 'owner' ? null : caller;
}

function hasOrdinaryBody(method: string, headers: IncomingHttpHeaders): boolean {
  const size = headers['content-length'];
  // The framework ignores the content type of a request without a body.
  if (method === 'GET') return size === undefined;
  return Number(size) > 0 && Number(size) <= maxBodyBytes && jsonType.test(headers['content-type'] ?? '');
}
