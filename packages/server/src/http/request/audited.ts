// What the audit log records: one table of routes. An entry is written before the response is sent, so that nothing that was
// acknowledged is missing. Of the request, only the fields that are named here get into it.
import type { MemberKey } from '@rowhouse/api';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
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

const project = '/projects/:slug';
const users = `${project}/auth/users`;
const createdProject = (answer: Answer) => ({ project: answer.project?.slug });
const createdKey = (answer: Answer) => ({ target: answer.key?.id });
const limits = ['name', 'max_projects', 'max_total_mb', 'max_requests_per_second'];

const audited: Readonly<Record<string, Audited>> = {
  'POST /projects': { action: 'project.create', fields: ['name', 'slug', 'limit_mb'], made: createdProject },
  'POST /projects/import': {
    action: 'project.import',
    fields: ['name', 'slug', 'limit_mb'],
    made: createdProject,
  },
  [`PATCH ${project}`]: { action: 'project.change', fields: ['name', 'limit_mb', 'expires_at'] },
  [`DELETE ${project}`]: { action: 'project.delete' },
  [`POST ${project}/restore`]: { action: 'project.restore', fields: ['to', 'snapshot', 'into'] },
  [`POST ${project}/branches`]: { action: 'project.branch', fields: ['name', 'slug', 'mode', 'at'] },
  [`POST ${project}/reset`]: { action: 'project.reset' },
  [`POST ${project}/promote`]: { action: 'project.promote' },
  [`POST ${project}/move`]: { action: 'project.move', fields: ['server', 'mode'] },
  [`GET ${project}/export`]: { action: 'project.export' },
  [`GET ${project}/connection`]: { action: 'project.connection' },
  [`POST ${project}/keys`]: { action: 'key.issue', fields: ['name', 'kind', 'scopes'], made: createdKey },
  [`DELETE ${project}/keys/:id`]: { action: 'key.revoke' },
  [`POST ${project}/keys/rotate`]: { action: 'key.rotate', fields: ['grace_seconds'], made: createdKey },
  [`POST ${users}/:id/act-as`]: { action: 'user.act_as' },
  [`DELETE ${users}/:id`]: { action: 'user.delete' },
  [`PATCH ${project}/auth/settings`]: { action: 'project.auth_settings' },
  'PATCH /account': { action: 'account.change', fields: ['name', 'requires_second_factor'] },
  'POST /account/keys': {
    action: 'account_key.issue',
    fields: ['name', 'role', 'expires_at'],
    made: createdKey,
  },
  'DELETE /account/keys/:id': { action: 'account_key.revoke' },
  'PATCH /account/members/:id': { action: 'member.change', fields: ['role', 'projects'] },
  'DELETE /account/members/:id': { action: 'member.remove', fields: ['revoke_keys'] },
  'POST /account/invitations': {
    action: 'member.invite',
    fields: ['email', 'role', 'projects'],
    made: (answer) => ({ target: answer.invitation?.id }),
  },
  'DELETE /account/invitations/:id': { action: 'member.uninvite' },
  'POST /accounts': {
    action: 'account.create',
    fields: [...limits, 'owner_email'],
    made: ({ account }) => ({ target: account?.id }),
  },
  'PATCH /accounts/:id': { action: 'account.limit', fields: [...limits, 'suspended_because', 'is_operator'] },
  'DELETE /accounts/:id': { action: 'account.delete' },
  'POST /accounts/:id/restore': { action: 'account.restore' },
  'POST /accounts/:id/keys': { action: 'account.issue_key', fields: ['name', 'role', 'expires_at'] },
  'POST /people/recovery': { action: 'person.give_link', fields: ['email', 'reset_second_factor'] },
  'POST /servers': { action: 'server.add', fields: ['name'], made: ({ server }) => ({ target: server?.id }) },
  'PATCH /servers/:id': { action: 'server.change' },
  'POST /servers/:id/drain': { action: 'server.drain', fields: ['move'] },
  'DELETE /servers/:id': { action: 'server.remove' },
  'POST /backups/prune': { action: 'backup.prune' },
};

/** For a test, which compares the names with the routes that there are. */
export const auditedRoutes = Object.keys(audited);

/** Call it before the routes of the API are registered. */
export function auditRoutes(api: FastifyInstance, deps: Deps): void {
  api.addHook('onSend', async (request, reply, payload) => {
    const route = request.routeOptions.url?.slice(api.prefix.length) ?? '';
    const entry = audited[`${request.method} ${route}`];
    // A key that is not valid has no actor. An entry for it would let strangers fill the log.
    if (entry && hasName(request) && reply.statusCode !== 429)
      await write(deps, toEntry(deps, request, reply, entry, payload));
    return payload;
  });
}

/** Everybody has a publishable key, and could fill the log with what is refused. */
function hasName({ caller, operator }: FastifyRequest): boolean {
  return operator !== null || (caller !== null && caller.kind !== 'publishable');
}

/** For a route that streams its response by itself. */
export async function noteStream(deps: Deps, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const { url = '' } = request.routeOptions;
  const entry = audited[`${request.method} ${url.slice(url.indexOf('/projects'))}`];
  if (!entry) throw new Error(`The route ${request.method} ${url} is not in the table of the audit log.`);
  await write(deps, toEntry(deps, request, reply, entry, null));
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

/** What is refused again and again is recorded once a minute. */
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
