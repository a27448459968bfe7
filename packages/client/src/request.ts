// Sends a request: its URL, its timeout, its retries, and how its response is read.
import { isRowhouseError, misuse, RowhouseError } from './errors.ts';
import { type Numbers, parseJson, toJson } from './json.ts';

/** Options of every client. */
export type ServiceOptions = {
  /** `rh_proj_…`, `rh_pub_…` (in browsers) or `rh_acct_…`. */
  apiKey: string;
  /** The address of the service. Default: `http://127.0.0.1:8765`. */
  url?: string;
  /** A replacement for the global `fetch`. */
  fetch?: typeof fetch;
  /** The timeout for a response, or for each chunk of a stream, in milliseconds. Default: 60,000. 0: no timeout. */
  timeoutMs?: number;
  /** How often a request is retried that the service guarantees not to have run. Default: 2. */
  retries?: number;
};

/** Options of every call. */
export type CallOptions = {
  /** Aborts the request; a running statement is cancelled. */
  signal?: AbortSignal;
};

/** Options of every POST. */
export type PostOptions = CallOptions & {
  /**
   * Makes the request safe to retry after a lost response, and the client then retries it: the service runs it once.
   * `true` creates a key for this call. A key of your own also protects across restarts of your program.
   */
  idempotencyKey?: true | string;
};

/** A request. It has no body if `body` is undefined. */
export type Call = { [Name in keyof PostOptions]?: PostOptions[Name] | undefined } & {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  path: readonly string[];
  /** Undefined values are omitted. */
  query?: object;
  /** Sent as it is if `type` is given, otherwise as JSON. */
  body?: unknown;
  type?: string;
  accept?: string;
  /** `open` yields bytes. */
  isRaw?: boolean;
  token?: string | null;
  /** The minimum timeout. */
  timeoutMs?: number | undefined;
};

export type Service = {
  /** The parsed response. `any`, because each caller knows what it requested. */
  // biome-ignore lint/suspicious/noExplicitAny: said above
  send(call: Call): Promise<any>;
  /** The text of the response as it arrives. Leaving the loop ends the request. */
  open(call: Call): AsyncGenerator<string>;
};

const prefix = '/api/dbaas/v2';
/** After floods, the service requests longer waits. Then the application decides, not a timer in the client. */
const longestWaitS = 20;

type Options = ServiceOptions & { maxStalenessMs?: number };

/** `root`: the first segments of all paths. */
export function openService(options: Options, numbers: Numbers, root: readonly string[]): Service {
  const { apiKey, retries = 2, timeoutMs = 60_000, url = 'http://127.0.0.1:8765' } = options;
  // Nearly always a variable of the environment that is not set: ROWHOUSE_API_KEY, or another name.
  if (!apiKey) throw misuse('apiKey is missing.', 'Is ROWHOUSE_API_KEY set?');
  if (!/^[\x21-\x7e]+$/.test(apiKey)) throw misuse('apiKey is malformed.');
  const base = readUrl(url);
  const { maxStalenessMs } = options;
  /** The position of the last change: reads from standbys have to include it. If it is `unknown`, the primary answers. */
  let position = '';

  const begin = async (
    call: Call,
    body: BodyInit | undefined,
    key: string | undefined,
  ): Promise<Answering> => {
    const { method, token } = call;
    const mayChange = method !== 'GET' && !(call.body as { read_only?: boolean } | undefined)?.read_only;
    const address = base + addressOf(call, root);
    const watch = watchOver(call, timeoutMs && Math.max(timeoutMs, call.timeoutMs ?? 0), base);
    const sending = watch.over(() =>
      (options.fetch ?? fetch)(address, {
        method,
        headers: {
          'x-api-key': apiKey,
          ...(maxStalenessMs && {
            'rowhouse-max-staleness': `${maxStalenessMs}ms`,
            ...(position && { 'rowhouse-min-position': position }),
          }),
          ...(token && { authorization: `Bearer ${token}` }),
          ...(body && { 'content-type': call.type ?? 'application/json' }),
          ...(call.accept && { accept: call.accept }),
          ...(key && { 'idempotency-key': key }),
        },
        body: body ?? null,
        // Required for streams, and only known to them.
        ...(isStream(body) && { duplex: 'half' }),
        // Following a redirect would send the key to another server and turn a POST into a GET.
        redirect: 'manual',
        signal: watch.signal,
      }),
    );
    const response = await sending.catch((error) => {
      if (mayChange) position = 'unknown';
      throw error;
    });
    const { headers } = response;
    const next = headers.has('idempotency-replayed') ? 'unknown' : headers.get('rowhouse-position');
    // Responses can arrive in another order than their changes were made. The server comes first; `unknown` has none.
    if (next && (Number.parseInt(next, 10) !== Number.parseInt(position, 10) || next > position))
      position = next;
    if (response.ok) return { response, watch };
    throw readFailure(response, await watch.over(() => response.text()), base);
  };

  const repeating = async <T>(call: Call, use: (answering: Answering) => Promise<T>): Promise<T> => {
    const { body, idempotencyKey, method, signal } = call;
    const text = body === undefined || call.type ? (body as BodyInit | undefined) : toJson(body);
    const key = idempotencyKey === true ? newKey() : idempotencyKey;
    for (let attempt = 0; ; attempt++) {
      try {
        return await use(await begin(call, text, key));
      } catch (error) {
        const waitMs = waitBefore(error, attempt, method === 'GET' || !!key);
        if (waitMs === null || attempt >= retries || isStream(text)) throw error;
        await sleep(waitMs, signal);
      }
    }
  };

  return {
    send: (call) =>
      repeating(call, async ({ response, watch }) => {
        const text = await watch.over(() => response.text());
        const answer = tryParse(() => parseJson(text, numbers));
        if (answer?.ok) return answer;
        throw notRowhouse(response, base);
      }),
    open: async function* (call) {
      const { response, watch } = await repeating(call, async (answering) => answering);
      const reader = response.body?.getReader();
      const decoder = new TextDecoder();
      try {
        for (;;) {
          const { done, value } = (await watch.over(async () => reader?.read())) ?? { done: true };
          const piece = call.isRaw ? value : decoder.decode(value, { stream: !done });
          // The type says text; only the caller that asked for bytes gets them.
          if (piece) yield piece as string;
          if (done) return;
        }
      } finally {
        watch.abort();
      }
    },
  };
}

/** It can be sent once. */
function isStream(body: unknown): boolean {
  return !!(body as ReadableStream | undefined)?.getReader;
}

type Answering = { response: Response; watch: Watch };
type Watch = {
  signal: AbortSignal;
  over<T>(work: () => Promise<T>): Promise<T>;
  abort(reason?: string): void;
};

/** Ends a request when it times out or its caller aborts it. Each wait has the full timeout. */
function watchOver({ method, signal: given }: Call, timeoutMs: number, base: string): Watch {
  const controller = new AbortController();
  const { signal } = controller;
  const abort = (reason?: string) => controller.abort(reason);
  const giveUp = () => abort('aborted');
  return {
    signal,
    abort,
    over: async (work) => {
      const timer = timeoutMs ? setTimeout(abort, timeoutMs, 'timeout') : undefined;
      given?.addEventListener('abort', giveUp);
      try {
        if (given?.aborted) giveUp();
        return await work();
      } catch (error) {
        const { message, cause } = error as Error & { cause?: { code?: string } };
        const code: string = signal.aborted ? signal.reason : 'network_error';
        const why: string = signal.aborted
          ? code + (code === 'timeout' ? ` after ${timeoutMs} ms` : '')
          : (cause?.code ?? message);
        // Each runtime has its own word for it, and browsers none.
        const isRefused = /refused/i.test(why + message);
        const [text, hint] = isRefused
          ? [`${base} refused the connection.`, 'Is the service running?']
          : [
              `No response from ${base}: ${why}.`,
              method === 'GET' ? undefined : 'It may have taken effect. Check before a retry.',
            ];
        throw new RowhouseError(code, text as string, { hint, cause: error });
      } finally {
        clearTimeout(timer);
        given?.removeEventListener('abort', giveUp);
      }
    },
  };
}

/** How long to wait before a retry; null: no retry. */
function waitBefore(error: unknown, attempt: number, isRepeatable: boolean): number | null {
  if (!isRowhouseError(error)) return null;
  const { code, status, retryable, retryAfterS = 0 } = error;
  const isLost = code === 'network_error' || (code === 'invalid_response' && status > 500);
  if (!nothingRan.test(code) && !(isRepeatable && (isLost || retryable))) return null;
  if (retryAfterS > longestWaitS) return null;
  return retryAfterS * 1000 + 200 * 2 ** attempt * (0.5 + Math.random() / 2);
}

/**
 * Codes with which the service guarantees that the request had no effect. `outcome_unknown` does not guarantee it, nor
 * does a deadlock: changes that a CALL had committed remain.
 */
const nothingRan = /^(rate_limited|overloaded|unavailable)$/;

function readFailure(response: Response, text: string, base: string): RowhouseError {
  const { code, message, ...rest } = tryParse(() => JSON.parse(text))?.error ?? {};
  const { status, headers } = response;
  if (typeof code !== 'string') return notRowhouse(response, base);
  return new RowhouseError(code, String(message), {
    ...rest,
    status,
    requestId: headers.get('x-request-id') ?? undefined,
    retryable: nothingRan.test(code) || rest.details?.retryable === true,
    retryAfterS: Number(headers.get('retry-after')) || undefined,
  });
}

function notRowhouse({ status }: Response, base: string): RowhouseError {
  return new RowhouseError('invalid_response', `The server at ${base} is not Rowhouse (HTTP ${status}).`, {
    status,
    hint: 'Check the url.',
  });
}

/** null: not JSON. `any`, because the text comes from outside. */
// biome-ignore lint/suspicious/noExplicitAny: said above
function tryParse(parse: () => unknown): any {
  try {
    return parse();
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** Browsers provide randomUUID only on https pages. The key must be unique, not secret. */
function newKey(): string {
  return crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}-${Math.random()}`;
}

function addressOf({ path, query = {} }: Call, root: readonly string[]): string {
  const segments = [...root, ...path];
  // A slug of ".." would lead to another path.
  if (segments.some((text) => /^\.{0,2}$/.test(text)))
    throw misuse('A slug, table or id is empty, "." or "..".');
  const pairs = Object.entries(query).filter((pair) => pair[1] !== undefined);
  try {
    const search = pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
    return `${prefix}/${segments.map(encodeURIComponent).join('/')}${search && `?${search}`}`;
  } catch {
    throw misuse('A text has an unpaired surrogate.');
  }
}

function readUrl(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : null;
  if (!url || !/^https?:$/.test(url.protocol)) throw misuse(`"${given}" is not an http or https URL.`);
  const folder = url.pathname.replace(/\/+$/, '');
  return url.origin + (folder.endsWith(prefix) ? folder.slice(0, -prefix.length) : folder);
}

/** It never rejects: an aborted request reports the abort itself. */
function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}
