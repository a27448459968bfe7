// The response to a request for data: its headers, what is kept of it for repeats, and its line in logs and metrics.
import { errors, RowhouseError } from '../../errors/errors.ts';
import { type Answer, HeldAnswer } from '../../query/exchange/held-answer.ts';
import type { Changed } from '../../tables/changes.ts';
import { positionHeaders, unknownPosition } from '../request/staleness.ts';
import { json } from '../response/content-type.ts';
import { respondingTo } from '../response/error-response.ts';
import type { DataRequest, RunningRequest } from './data-request.ts';

/** Sends a whole response, or ends one that was streamed. */
export function succeed(request: RunningRequest, given: Answer | Changed): void | Promise<void> {
  const { route, deps, login, hasBegun, head } = request;
  const isChange = given !== null && 'isNew' in given;
  const answer = isChange ? given.answer : given;
  // An upsert that changed nothing created nothing.
  const status = isChange && !given.isNew ? 200 : route.status;
  if (!route.tellsChange || hasBegun || !request.wantsPosition) return sendAnswer(request, answer, status);
  return positionHeaders(deps, login).then((position) => {
    head.push(...position);
    sendAnswer(request, answer, status);
  });
}

function sendAnswer(request: RunningRequest, answer: Answer, status: number): void {
  const { deps, route, login, head, contentType } = request;
  if (request.isAnswered) {
    if (answer instanceof HeldAnswer) answer.release();
    return;
  }
  // The last known size: it is not measured here.
  const room = route.tellsChange && answer ? deps.query.admission.headroom.recall(login.id) : null;
  if (room) head.push('x-project-size', String(room.size_mb), 'x-project-limit', String(room.limit_mb));
  if (Buffer.isBuffer(answer)) return send(request, { status, body: answer, contentType });
  request.isAnswered = true;
  if (answer) request.sendHeld(answer, status);
  else request.end();
  finish(request, status);
}

/** Answers with an error, or cuts off a response that was begun: it must not look complete. */
export function fail(request: DataRequest, thrown: Error): void {
  const { deps, requestId, exchange, head, route } = request;
  if (request.isAnswered) return;
  if (request.hasBegun) {
    request.isAnswered = true;
    deps.log.warn({ request_id: requestId, err: thrown }, 'a response was cut off');
    request.failure = thrown instanceof RowhouseError ? thrown : errors.internal(thrown);
    exchange.breakOff();
    return finish(request, route.status);
  }
  const {
    error,
    status,
    head: more,
    body,
  } = respondingTo(deps.log, thrown, { ...route, exchange, requestId });
  request.failure = error;
  head.push(...more, ...(request.wantsPosition ? unknownPosition : []));
  send(request, { status, body, contentType: json });
}

type Whole = Readonly<{ status: number; body: Buffer; contentType: string | null }>;

/** A request with an Idempotency-Key: its answer is stored first, so that no answer is sent that a repeat would not get. */
export function send(request: DataRequest, { status, body, contentType }: Whole): void {
  const { deadline, repeat, failure, exchange, head } = request;
  request.isAnswered = true;
  deadline.end();
  if (contentType !== null) head.push('content-type', contentType);
  head.push('content-length', String(body.length));
  const sendNow = () => {
    exchange.send(status, head, body);
    finish(request, status);
  };
  if (!repeat?.isReserved) return sendNow();
  const kept = repeat.end({ status, failure, contentType, location: null, body }, deadline.leftMs);
  void kept.then(sendNow);
}

function finish(request: DataRequest, status: number): void {
  const { endpoint, deps, requestId, route, params, exchange, caller, operator, deadline } = request;
  // It still runs if the caller hung up before a held response began.
  deadline.end();
  endpoint.onFinished({
    requestId,
    method: exchange.method,
    route: endpoint.way.prefix + route.path,
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
