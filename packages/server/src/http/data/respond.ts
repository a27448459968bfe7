// The response to a request for data: its headers, what is kept of it for repeats, and its line in logs and metrics.
import { errors, RowhouseError } from '../../errors/errors.ts';
import { type Answer, HeldAnswer } from '../../query/exchange/held-answer.ts';
import type { Changed } from '../../tables/changes.ts';
import { positionHeaders, stalenessHeader, unknownPosition } from '../request/staleness.ts';
import { json } from '../response/content-type.ts';
import { respondingTo } from '../response/error-response.ts';
import type { Finished } from '../response/request-log.ts';
import type { DataRequest, RunningRequest } from './data-request.ts';
import { ResponseReader } from './response-reader.ts';

export type OnFinished = (finished: Finished) => void;

export function openReader(request: DataRequest): ResponseReader {
  const { exchange, deadline, route, head } = request;
  return new ResponseReader({
    exchange,
    deadline,
    status: route.status,
    contentType: request.accepted?.contentType ?? json,
    begin: (isCommitted) => {
      keepStream(request);
      return !isCommitted && wantsPosition(request) ? [...head, ...unknownPosition] : head;
    },
  });
}

/** A streamed response is too large to be kept for repeats. */
function keepStream({ repeat, reader, route, exchange }: DataRequest): void {
  if (!repeat?.isReserved) return;
  const end = () => repeat.endStream(reader?.hasEnded === true, route.status);
  if (exchange.isGone) end();
  else exchange.onEnd(end);
}

/** Sends a whole response, or ends one that was streamed. */
export function succeed(
  request: RunningRequest,
  given: Answer | Changed,
  onFinished: OnFinished,
): void | Promise<void> {
  const { route, reader, deps, login } = request;
  const isChange = given !== null && 'isNew' in given;
  const answer = isChange ? given.answer : given;
  // An upsert that changed nothing created nothing.
  const status = isChange && !given.isNew && route.status === 201 ? 200 : route.status;
  if (route.readsStandbys && !reader.hasBegun && wantsPosition(request))
    return positionHeaders(deps, login).then((position) => {
      request.head.push(...position);
      sendAnswer(request, answer, status, onFinished);
    });
  sendAnswer(request, answer, status, onFinished);
}

function sendAnswer(request: RunningRequest, answer: Answer, status: number, onFinished: OnFinished): void {
  const { deps, route, reader, login, head } = request;
  if (request.isAnswered) {
    if (answer instanceof HeldAnswer) answer.release();
    return;
  }
  const room = route.tellsSize && answer !== null ? deps.query.admission.headroom.recall(login.id) : null;
  // The last known size: it is not measured here.
  if (room) head.push('x-project-size', String(room.size_mb), 'x-project-limit', String(room.limit_mb));
  if (answer !== null && !(answer instanceof HeldAnswer))
    return send(request, { status, body: answer, contentType: reader.contentType }, onFinished);
  request.isAnswered = true;
  if (answer) reader.send(answer, status);
  else reader.end();
  request.deadline.end();
  finish(request, status, onFinished);
}

/** Answers with an error, or cuts off a response that was begun: it must not look complete. */
export function fail(request: DataRequest, thrown: Error, onFinished: OnFinished): void {
  const { deps, reader, requestId, exchange, head, route } = request;
  if (request.isAnswered) return;
  if (reader?.hasBegun) {
    request.isAnswered = true;
    deps.log.warn({ request_id: requestId, err: thrown }, 'a response was cut off');
    request.failure = thrown instanceof RowhouseError ? thrown : errors.internal(thrown);
    reader.breakOff();
    return finish(request, route.status, onFinished);
  }
  const {
    error,
    status,
    head: more,
    body,
  } = respondingTo(deps.log, thrown, { ...route, exchange, requestId });
  request.failure = error;
  head.push(...more);
  if (wantsPosition(request)) head.push(...unknownPosition);
  send(request, { status, body, contentType: json }, onFinished);
}

type Whole = Readonly<{ status: number; body: Buffer; contentType: string | null }>;

/** What was acknowledged is kept for repeats already. */
export function send(
  request: DataRequest,
  { status, body, contentType }: Whole,
  onFinished: OnFinished,
): void {
  const { deadline, repeat, failure, exchange, head } = request;
  request.isAnswered = true;
  deadline.end();
  if (contentType !== null) head.push('content-type', contentType);
  head.push('content-length', String(body.length));
  const sendNow = () => {
    exchange.send(status, head, body);
    finish(request, status, onFinished);
  };
  if (!repeat?.isReserved) return sendNow();
  const kept = repeat.end({ status, failure, contentType, location: null, body }, deadline.leftMs);
  void kept.then(sendNow);
}

/** Whether the response has to say from which position on standbys know the change. */
function wantsPosition({ exchange, deadline }: DataRequest): boolean {
  return exchange.headers[stalenessHeader] !== undefined && deadline.mayHaveChanged;
}

function finish(request: DataRequest, status: number, onFinished: OnFinished): void {
  const { deps, requestId, way, route, params, exchange, caller, operator, deadline } = request;
  onFinished({
    requestId,
    method: exchange.method,
    route: way.prefix + route.path,
    path: exchange.url,
    status,
    ms: performance.now() - request.arrivedAt,
    keyId: (caller ?? operator)?.keyId,
    projectId: caller ? deps.logins.recall(caller, params.slug)?.id : undefined,
    failure: request.failure,
    statement: deadline.statement,
    raw: exchange,
  });
}
