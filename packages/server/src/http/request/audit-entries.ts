// Writes the entries of the audit log, as each route declares them in `audit`. An entry is written before the response is sent, so
// that no acknowledged change is missing. It contains only those fields of the request that the route names.
import type { MemberKey } from '@rowhouse/api';
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify';
import { LRUCache } from 'lru-cache';
import { append, type NewEntry } from '../../control/audit-log.ts';
import { upTo } from '../../lib/cache-size.ts';
import type { Deps } from '../deps.ts';

type Answer = Record<string, Record<string, unknown> | undefined>;
type Audited = Readonly<{
  action: string;
  /** The fields of the body, or of the query string, that the log keeps. */
  fields?: readonly string[];
  /** What a successful response names: the slug of the project, the target. */
  made?: (answer: Answer) => { project?: unknown; target?: unknown };
}>;

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What the audit log records of the route. null: nothing. Every route that can change something says which. */
    audit?: Audited | null;
  }
}

export const createdProject = (answer: Answer) => ({ project: answer.project?.slug });
export const createdKey = (answer: Answer) => ({ target: answer.key?.id });

/** Call it before the routes are registered, and before acceptIdempotencyKeys: the entry comes before the answer is kept for repeats. */
export function writeAuditEntries(api: FastifyInstance, deps: Deps): void {
  api.addHook('onRoute', (route) => {
    const { method, url, config, onSend }: Partial<RouteOptions> = route;
    const audit = config?.audit;
    if (audit === undefined && method !== 'GET' && method !== 'HEAD')
      throw new Error(`The route ${method} ${url} does not declare what the audit log records of it.`);
    if (!audit || method === 'HEAD') return;
    route.onSend = [
      ...[onSend ?? []].flat(),
      async (request: FastifyRequest, reply: FastifyReply, payload: unknown) => {
        // A key that is not valid has no actor. An entry for it would let strangers fill the log.
        if (hasName(request) && reply.statusCode !== 429)
          await write(deps, toEntry(deps, request, reply, audit, payload));
        return payload;
      },
    ];
  });
}

/** Anyone can have a publishable key, and could fill the log with refused requests. */
function hasName({ caller, operator }: FastifyRequest): boolean {
  return operator !== null || (caller !== null && caller.kind !== 'publishable');
}

/** For a route that streams its response by itself. */
export async function noteStream(deps: Deps, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { audit } = request.routeOptions.config;
  if (!audit)
    throw new Error('A route that streams its response does not declare what the audit log records of it.');
  await write(deps, toEntry(deps, request, reply, audit, null));
}

/** For keys that were revoked together with something else: the same entries as one by one. */
export async function noteRevocations(
  deps: Deps,
  request: FastifyRequest,
  keys: readonly MemberKey[],
): Promise<void> {
  const revoked = keys.filter(({ status }) => status === 'revoked');
  for (const { id, project: slug } of revoked)
    await write(deps, {
      ...whoOf(request),
      action: slug === null ? 'account_key.revoke' : 'key.revoke',
      project: slug === null ? null : { id: projectIdOf(deps, request, slug), slug },
      target: id,
      outcome: 'done',
      error: null,
      details: null,
    });
}

/** A refusal that repeats is recorded once a minute. */
const refusals = new LRUCache<string, true>({ ...upTo(10_000), ttl: 60_000 });

export async function write({ control, log }: Deps, entry: NewEntry): Promise<void> {
  if (entry.outcome !== 'done') {
    const { actor, accountId, address, action, error } = entry;
    const name = JSON.stringify([actor.id ?? address, accountId, action, error]);
    if (refusals.has(name)) return;
    refusals.set(name, true);
  }
  await append(control, entry).catch((error: unknown) =>
    log.error({ err: error, action: entry.action }, 'an entry of the audit log was not written'),
  );
}

function toEntry(
  deps: Deps,
  request: FastifyRequest,
  reply: FastifyReply,
  { action, fields = [], made }: Audited,
  payload: unknown,
): NewEntry {
  const params = (request.params ?? {}) as Record<string, string | undefined>;
  const [body, query] = [request.body ?? {}, request.query ?? {}] as Record<string, unknown>[];
  const isDone = reply.statusCode < 400;
  const answer = isDone && made && typeof payload === 'string' ? made(JSON.parse(payload)) : {};
  const slug = params.slug ?? textOf(answer.project);
  const details = fields.flatMap((name) => {
    // null says something: a limit that is lifted, an account that is resumed.
    const value = body?.[name] !== undefined ? body[name] : query?.[name];
    return value === undefined ? [] : [[name, value]];
  });
  // An id that was refused may be anything.
  const isAboutAccount = isDone && request.operator !== null && action.startsWith('account.');
  return {
    ...whoOf(request),
    ...(isAboutAccount && { accountId: params.id ?? textOf(answer.target) }),
    action,
    project: slug === null ? null : { id: projectIdOf(deps, request, slug), slug },
    target: params.id ?? textOf(answer.target),
    ...outcomeOf(request, reply),
    details: Object.fromEntries(details),
  };
}

function textOf(value: unknown): string | null {
  return value === undefined || value === null ? null : String(value);
}

function projectIdOf({ logins }: Deps, { caller }: FastifyRequest, slug: string): string | null {
  return caller ? (logins.recall(caller, slug)?.id ?? null) : null;
}

export function whoOf(
  request: FastifyRequest,
): Pick<NewEntry, 'accountId' | 'actor' | 'address' | 'requestId'> {
  const { caller, operator, ip: address, id: requestId } = request;
  const about = { address, requestId };
  if (operator)
    return { ...about, accountId: null, actor: { kind: 'operator', id: operator.keyId, name: null } };
  if (!caller) return { ...about, accountId: null, actor: { kind: 'nobody', id: null, name: null } };
  const { accountId, keyId } = caller;
  const person = caller.kind === 'account' ? caller.person : null;
  if (person) return { ...about, accountId, actor: { kind: 'person', id: person.id, name: person.email } };
  return { ...about, accountId, actor: { kind: 'key', id: keyId, name: null } };
}

export function outcomeOf(
  { failure }: FastifyRequest,
  { statusCode }: FastifyReply,
): Pick<NewEntry, 'outcome' | 'error'> {
  if (statusCode < 400) return { outcome: 'done', error: null };
  const isRefused = statusCode === 401 || statusCode === 403;
  return { outcome: isRefused ? 'refused' : 'failed', error: failure?.code ?? null };
}
