// The only place that calls fetch. Every request carries the token, the half of the session that no other origin has; the
// browser adds the cookie.
import type { ErrorBody } from '@rowhouse/api';
import { ApiError, isAbort, unreachable } from './error.ts';

export type Query = Record<string, string | number | boolean | undefined> | [string, string][];
export type Options = {
  query?: Query | undefined;
  body?: unknown;
  signal?: AbortSignal | undefined;
  accept?: string;
  /** Makes a POST safe to send again. */
  idempotencyKey?: string | undefined;
};
export type Method = 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';

/** The proof that the service asks for again: the password or passkey alone, or the second factor too. */
export type Wanted = 'person' | 'factor';

/** Set by the session, which this module does not import. */
export const hooks = {
  token: (): string | null => null,
  /** A token for acting as an end user of the project, if the person does. */
  actingToken: (_slug: string): string | null => null,
  onSessionEnded: () => {},
  /** Asks the person to prove who they are. Resolves to true when the request can be sent again. */
  confirm: async (_wanted: Wanted): Promise<boolean> => false,
};

export const apiBase = '/console/api/dbaas/v2';

export const api = {
  get: <T>(path: string, query?: Query, signal?: AbortSignal) => call<T>('GET', path, { query, signal }),
  post: <T>(path: string, body?: unknown, options: Omit<Options, 'body'> = {}) =>
    call<T>('POST', path, { ...options, body: body ?? {} }),
  patch: <T>(path: string, body: unknown) => call<T>('PATCH', path, { body }),
  put: <T>(path: string, body: unknown) => call<T>('PUT', path, { body }),
  delete: <T>(path: string, body?: unknown, query?: Query) =>
    call<T>('DELETE', path, { query, ...(body !== undefined && { body }) }),
};

/** A request with `/console/…`, outside the API: sessions, invitations, the own profile. Whoever opens or ends the session itself handles its failures. */
export async function sessionRequest<T>(method: Method, path: string, body?: unknown): Promise<T> {
  try {
    return await read<T>(await send(method, `/console/${path}`, body === undefined ? {} : { body }));
  } catch (error) {
    const isEnded = error instanceof ApiError && error.code === 'session_required';
    if (isEnded && hooks.token() && path !== 'session') hooks.onSessionEnded();
    throw error;
  }
}

const wants: Record<string, Wanted> = { confirmation_required: 'person', second_factor_required: 'factor' };

/** Sends it again after the person has proved who they are, if the service wants that. */
export async function confirmed<T>(send: () => Promise<T>): Promise<T> {
  try {
    return await send();
  } catch (error) {
    const wanted = error instanceof ApiError ? wants[error.code] : undefined;
    if (!wanted || !(await hooks.confirm(wanted))) throw error;
    // Either can be missing, so the other one may be asked for next.
    return wanted === 'person' ? confirmed(send) : send();
  }
}

/** A public address of the service, such as /readyz. */
export function serviceRequest<T>(url: string): Promise<T> {
  return send('GET', url, {}).then(read<T>);
}

/** The answer itself, to be read as it arrives. Failures are thrown as everywhere. */
export async function open(method: Method, path: string, options: Options): Promise<Response> {
  const url = `${apiBase}/${path}${queryString(options.query)}`;
  try {
    return await send(method, url, options, path);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.code === 'session_required') hooks.onSessionEnded();
    if (error.code !== 'confirmation_required' || !(await hooks.confirm('person'))) throw error;
    return send(method, url, options, path);
  }
}

/** What makes a request one of this session. `path`: of the API. */
export function requestHeaders(path: string): Record<string, string> {
  const token = hooks.token();
  const acting = actingTokenFor(path);
  return {
    ...(token ? { 'rowhouse-console-token': token } : {}),
    ...(acting ? { authorization: `Bearer ${acting}` } : {}),
  };
}

/** Only SQL and rows run as an end user; everything else stays the person's own. */
function actingTokenFor(path: string): string | null {
  const slug = /^projects\/([^/]+)\/(?:query|batch|tables\/[^/]+)$/.exec(path)?.[1];
  return slug ? hooks.actingToken(decodeURIComponent(slug)) : null;
}

async function call<T>(method: Method, path: string, options: Options): Promise<T> {
  return read<T>(await open(method, path, options));
}

async function send(
  method: Method,
  url: string,
  { body, signal, idempotencyKey, accept = 'application/json' }: Options,
  path = '',
): Promise<Response> {
  const headers: Record<string, string> = { accept, ...requestHeaders(path) };
  if (body !== undefined) headers['content-type'] = 'application/json';
  if (idempotencyKey) headers['idempotency-key'] = idempotencyKey;
  const init: RequestInit = { method, headers, credentials: 'same-origin', cache: 'no-store' };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal) init.signal = signal;
  let response: Response;
  try {
    response = await fetch(url, init);
  } catch (error) {
    throw isAbort(error) ? error : unreachable();
  }
  if (response.ok) return response;
  if (!isJson(response)) throw unreachable(response.status);
  const retryAfter = response.headers.get('retry-after');
  throw new ApiError(
    response.status,
    (await response.json()) as ErrorBody,
    retryAfter ? Number(retryAfter) || undefined : undefined,
  );
}

async function read<T>(response: Response): Promise<T> {
  if (isJson(response)) return (await response.json()) as T;
  if (response.status === 204) return undefined as T;
  throw unreachable(response.status);
}

const isJson = ({ headers }: Response) =>
  headers.get('content-type')?.startsWith('application/json') ?? false;

export function queryString(query: Query | undefined): string {
  if (!query) return '';
  const entries = Array.isArray(query) ? query : Object.entries(query);
  const params = new URLSearchParams();
  for (const [name, value] of entries) if (value !== undefined) params.append(name, String(value));
  const text = params.toString();
  return text === '' ? '' : `?${text}`;
}

/** A path of the API with encoded parts: path`projects/${slug}/tables`. */
export function path(strings: TemplateStringsArray, ...parts: string[]): string {
  return strings.reduce((all, text, index) => all + encodeURIComponent(parts[index - 1] ?? '') + text);
}
