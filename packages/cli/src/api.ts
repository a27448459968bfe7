// Calls to a service: its address, the API key, and an explanation when no answer comes.
import type { apiPrefix, ErrorBody } from '@rowhouse/api';
import { type Command, Option } from 'commander';
import { certificateProblem } from './authority.ts';
import { Failure, failure } from './failure.ts';
import { type OutputOptions, waiting } from './output.ts';
import { timeoutSignal } from './timeout-signal.ts';

export type ApiOptions = OutputOptions & { url: string; key?: string; ca?: string };
type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';
type Input = {
  query?: Record<string, string | number | undefined>;
  body?: unknown;
  headers?: Record<string, string>;
  timeoutMs?: number;
  /** Ends the request: the service cancels the statement. */
  signal?: AbortSignal;
};
type Sending = Input & { headers: Record<string, string>; timeoutMs: number };

export const defaultUrl = 'http://127.0.0.1:8765';
const callTimeoutMs = 60_000;
/** A healthy service answers health checks at once. */
const healthTimeoutMs = 10_000;
// The type keeps the value equal to the API's. Importing the value would load every schema: 140 ms for each command.
const prefix: typeof apiPrefix = '/api/dbaas/v2';

/** The options of every command that talks to a service. */
export function withApiOptions(command: Command): Command {
  const url = new Option('--url <url>', 'address of the service').env('ROWHOUSE_URL').default(defaultUrl);
  const key = new Option(
    '--key <key>',
    'account key, or the project key of the project; a secret, so set it in the environment',
  );
  const profile = new Option('--profile <name>', 'profile of `rowhouse login` with the address and the key');
  return command
    .addOption(url)
    .addOption(key.env('ROWHOUSE_API_KEY'))
    .addOption(profile.env('ROWHOUSE_PROFILE'))
    .addOption(authorityOption())
    .option('--json', "print the service's response as JSON");
}

export const authorityOption = () =>
  new Option(
    '--ca <file>',
    'certificate of your own authority that signed that of the service (default: that of the profile)',
  ).env('ROWHOUSE_CA');

/** The same for a command that prints a list. */
export function withListOptions(command: Command): Command {
  const output = new Option('-o, --output <format>', 'how to print the list').choices(listFormats);
  return withApiOptions(command).addOption(output.default('table'));
}

/** The project that a command works on, where it is not an argument. */
export function withProjectOption(command: Command): Command {
  return command.option(
    '-p, --project <slug>',
    'project (default: ROWHOUSE_PROJECT, the project of this folder, or that of a project key)',
  );
}

export const listFormats = ['table', 'json', 'csv', 'jsonl'];

/** A request that needs a key. `path` holds the segments after the API's prefix. */
export function callApi<T>(
  options: ApiOptions,
  method: Method,
  path: string[],
  input: Input = {},
): Promise<T> {
  return send<T>(options, method, prefix + path.map(segment).join(''), {
    ...input,
    headers: { ...input.headers, ...keyHeader(options.key) },
    timeoutMs: input.timeoutMs ?? callTimeoutMs,
  });
}

/** A GET whose response is a file. Its body fails if the connection closes before the end. */
export function openDownload(
  options: ApiOptions,
  path: string[],
  query: Record<string, string>,
): Promise<AsyncIterable<Uint8Array>> {
  return openBody(options, 'GET', path, { query }, (headers) => headers.has('content-disposition'));
}

/** Rows in this format, as they arrive. */
export function openRows(
  options: ApiOptions,
  method: 'GET' | 'POST',
  path: string[],
  format: 'text/csv' | 'application/x-ndjson',
  input: Input,
): Promise<AsyncIterable<Uint8Array>> {
  const isRows = (headers: Headers) => headers.get('content-type')?.startsWith(format) === true;
  return openBody(options, method, path, { ...input, headers: { accept: format } }, isRows);
}

async function openBody(
  options: ApiOptions,
  method: Method,
  path: string[],
  { query = {}, body, headers, signal }: Input,
  isExpected: (headers: Headers) => boolean,
): Promise<AsyncIterable<Uint8Array>> {
  const base = readUrl(options.url);
  const request: RequestInit = {
    method,
    headers: {
      ...headers,
      ...keyHeader(options.key),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(signal && { signal }),
    redirect: 'manual',
  };
  const work = fetch(addressOf(base + prefix + path.map(segment).join(''), query), request).catch(
    (error: unknown) => {
      throw noAnswer({ base, method, timeoutMs: 0 }, error);
    },
  );
  const response = await waiting(options, `Waiting for ${base}`, work);
  if (response.status === 200 && isExpected(response.headers) && response.body) return response.body;
  return readAnswer(base, response, await response.text());
}

/** A part of a file, which is streamed. `offset`: how many bytes come before it. */
export function sendPart<T>(
  options: ApiOptions,
  path: string[],
  offset: number,
  body: AsyncIterable<Uint8Array>,
): Promise<T> {
  const headers = { 'content-type': 'application/octet-stream', 'upload-offset': String(offset) };
  return sendStream(options, 'PATCH', path, headers, body);
}

/** A body of any size, as it is read. */
export async function sendStream<T>(
  options: ApiOptions,
  method: 'PATCH' | 'POST',
  path: string[],
  headers: Record<string, string>,
  body: AsyncIterable<Uint8Array>,
): Promise<T> {
  const base = readUrl(options.url);
  const request = {
    method,
    headers: { ...keyHeader(options.key), ...headers },
    body: ReadableStream.from(body),
    duplex: 'half',
    redirect: 'manual',
  } as const;
  const lost = (error: unknown) => {
    throw noAnswer({ base, method, timeoutMs: 0 }, error);
  };
  const response = await fetch(base + prefix + path.map(segment).join(''), request).catch(lost);
  return readAnswer<T>(base, response, await response.text().catch(lost));
}

/** A request that needs no key. */
export function callService<T>(options: ApiOptions, path: `/${string}`): Promise<T> {
  return send<T>(options, 'GET', path, { headers: {}, timeoutMs: healthTimeoutMs });
}

export function readUrl(given: string): string {
  const text = given.trim() || defaultUrl;
  const url = URL.canParse(text) ? new URL(text) : null;
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.username || url.password) {
    throw failure(
      'invalid_url',
      `"${text}" is not a valid service address.`,
      `Use an address such as ${defaultUrl}.`,
    );
  }
  const folder = url.pathname.replace(/\/+$/, '');
  return url.origin + (folder.endsWith(prefix) ? folder.slice(0, -prefix.length) : folder);
}

async function send<T>(
  options: ApiOptions,
  method: Method,
  path: string,
  { query = {}, body, headers, timeoutMs, signal }: Sending,
): Promise<T> {
  const base = readUrl(options.url);
  const url = addressOf(base + path, query);
  const request: RequestInit = {
    method,
    headers: { ...headers, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    // Following a redirect would turn a POST into a GET.
    redirect: 'manual',
    signal: AbortSignal.any([timeoutSignal(timeoutMs), ...(signal ? [signal] : [])]),
  };
  const work = fetch(url, request)
    .then(async (response) => ({ response, text: await response.text() }))
    .catch((error: unknown) => {
      throw noAnswer({ base, method, timeoutMs }, error);
    });
  const { response, text } = await waiting(options, `Waiting for ${base}`, work);
  return readAnswer<T>(base, response, text);
}

function addressOf(text: string, query: NonNullable<Input['query']>): URL {
  const url = new URL(text);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) url.searchParams.set(name, String(value));
  }
  return url;
}

function readAnswer<T>(base: string, { status, headers }: Response, text: string): T {
  if (status >= 300 && status < 400) {
    const target = headers.get('location') ?? 'another address';
    throw failure(
      'redirected',
      `${base} redirects to ${target}.`,
      'Set --url or ROWHOUSE_URL to the address of the service itself.',
    );
  }
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    // Reported below: every response of Rowhouse is JSON.
  }
  if (isFailure(answer)) throw new Failure(answer);
  if (isObject(answer) && answer.ok === true && status < 300) return answer as T;
  throw failure(
    'not_rowhouse',
    `The server at ${base} is not Rowhouse (HTTP ${status}).`,
    'Set --url or ROWHOUSE_URL to the address that `rowhouse start` printed.',
  );
}

type Asked = { base: string; method: Method; timeoutMs: number };

function noAnswer({ base, method, timeoutMs }: Asked, error: unknown): Failure {
  const { name, message, cause } = error as Error & { cause?: { code?: string; message?: string } };
  const unknownOutcome =
    method === 'GET' ? undefined : 'The request may have taken effect. Check before you send it again.';
  if (name === 'TimeoutError') {
    return failure('no_answer', `${base} did not answer within ${timeoutMs / 1000} s.`, unknownOutcome);
  }
  if (name === 'AbortError') return failure('interrupted', 'Interrupted.');
  const certificate = certificateProblem(base, cause ?? {});
  if (certificate) return failure('no_answer', certificate.message, certificate.hint);
  if (cause?.code?.startsWith('ERR_SSL_')) {
    return failure('no_answer', `${base} does not speak https.`, 'Try the address with http://.');
  }
  switch (cause?.code) {
    case 'ECONNREFUSED':
      return failure(
        'no_answer',
        `No service is listening at ${base}.`,
        'Start one with `rowhouse start`, or set --url to a running service.',
      );
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return failure(
        'no_answer',
        `The host name in ${base} cannot be resolved.`,
        'Correct --url or ROWHOUSE_URL.',
      );
    case 'ECONNRESET':
    case 'UND_ERR_SOCKET':
      return failure(
        'no_answer',
        `The connection to ${base} was lost before the response arrived.`,
        unknownOutcome,
      );
    default:
      return failure('no_answer', `${base} cannot be reached: ${cause?.message || cause?.code || message}.`);
  }
}

/** A slug of ".." would lead to another path, so such segments are never sent. */
function segment(text: string): string {
  if (['', '.', '..'].includes(text)) throw failure('invalid_request', `"${text}" is not a valid name.`);
  return `/${encodeURIComponent(text)}`;
}

function keyHeader(key: string | undefined): Record<string, string> {
  return { authorization: `Bearer ${readKey(key)}` };
}

export function readKey(key: string | undefined): string {
  const value = key?.trim() ?? '';
  if (value === '') {
    throw failure(
      'missing_api_key',
      'This command needs an API key.',
      'Log in: rowhouse login. Or set ROWHOUSE_API_KEY to the account key that the first start printed. If it is lost, `rowhouse start --new-account-key` generates a new one.',
    );
  }
  if (!/^[\x21-\x7e]+$/.test(value)) {
    throw failure('invalid_api_key', 'The API key contains invalid characters.', 'Copy the key again.');
  }
  return value;
}

function isFailure(answer: unknown): answer is ErrorBody {
  if (!isObject(answer) || answer.ok !== false || !isObject(answer.error)) return false;
  return typeof answer.error.code === 'string' && typeof answer.error.message === 'string';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
