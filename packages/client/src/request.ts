// One request and its repeats: where it goes, how long it may take, when it is sent again, what its answer means.
import { isRowhouseError, misuse, RowhouseError } from './errors.ts';
import { type Numbers, parseJson, toJson } from './json.ts';

/** What every client is created with. */
export type ServiceOptions = {
  /** `rh_proj_…`, `rh_pub_…` (in browsers) or `rh_acct_…`. */
  apiKey: string;
  /** Where the service is; `http://127.0.0.1:8765` unless said otherwise. */
  url?: string;
  /** Instead of the global `fetch`. */
  fetch?: typeof fetch;
  /** How long an answer may take, or for a stream each piece of it. 60,000 unless said otherwise; 0: for ever. */
  timeoutMs?: number;
  /** How often a request is sent again that the service promises not to have run. 2 unless said otherwise. */
  retries?: number;
};

/** For every call. */
export type CallOptions = {
  /** Gives up when it is aborted; a statement that runs is cancelled. */
  signal?: AbortSignal;
};

/** For every POST. */
export type PostOptions = CallOptions & {
  /**
   * Makes it safe to send again after a lost answer, which the client then does: the service runs it once. `true` makes
   * a key for this call; one of your own holds across restarts too.
   */
  idempotencyKey?: true | string;
};

/** Without a body if that is undefined. */
export type Call = { [Name in keyof PostOptions]?: PostOptions[Name] | undefined } & {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  path: readonly string[];
  /** Those that are undefined are left out. */
  query?: object;
  body?: unknown;
  token?: string | null;
  /** At least. */
  timeoutMs?: number | undefined;
};

export type Service = {
  /** The answer. `any`, because each caller knows what it asked for. */
  // biome-ignore lint/suspicious/noExplicitAny: said above
  send(call: Call): Promise<any>;
  /** The answer's text as it comes. Breaking off ends the request. */
  open(call: Call): AsyncGenerator<string>;
};

const prefix = '/api/dbaas/v2';
/** The service asks to wait longer after floods; a person or a queue decides then, not a timer here. */
const longestWaitS = 20;

/** `root`: where all paths begin. */
export function openService(options: ServiceOptions, numbers: Numbers, root: readonly string[]): Service {
  const { apiKey, retries = 2, timeoutMs = 60_000, url = 'http://127.0.0.1:8765' } = options;
  if (!/^[\x21-\x7e]+$/.test(apiKey)) throw misuse('The apiKey is missing or mistyped.');
  const base = readUrl(url);

  const begin = async (call: Call, body: string | undefined, key: string | undefined): Promise<Answering> => {
    const { method, token } = call;
    const address = base + addressOf(call, root);
    const watch = watchOver(call, timeoutMs && Math.max(timeoutMs, call.timeoutMs ?? 0), base);
    const response = await watch.over(() =>
      (options.fetch ?? fetch)(address, {
        method,
        headers: {
          'x-api-key': apiKey,
          ...(token && { authorization: `Bearer ${token}` }),
          ...(body && { 'content-type': 'application/json' }),
          ...(key && { 'idempotency-key': key }),
        },
        body: body ?? null,
        // Followed, a redirect would carry the key elsewhere and turn a POST into a GET.
        redirect: 'manual',
        signal: watch.signal,
      }),
    );
    if (response.ok) return { response, watch };
    throw readFailure(response, await watch.over(() => response.text()), base);
  };

  const repeating = async <T>(call: Call, use: (answering: Answering) => Promise<T>): Promise<T> => {
    const { body, idempotencyKey, method, signal } = call;
    const text = body === undefined ? body : toJson(body);
    const key = idempotencyKey === true ? newKey() : idempotencyKey;
    for (let attempt = 0; ; attempt++) {
      try {
        return await use(await begin(call, text, key));
      } catch (error) {
        const waitMs = waitBefore(error, attempt, method === 'GET' || !!key);
        if (waitMs === null || attempt >= retries) throw error;
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
          yield decoder.decode(value, { stream: !done });
          if (done) return;
        }
      } finally {
        watch.abort();
      }
    },
  };
}

type Answering = { response: Response; watch: Watch };
type Watch = {
  signal: AbortSignal;
  over<T>(work: () => Promise<T>): Promise<T>;
  abort(reason?: string): void;
};

/** Ends a request when its time is over or its caller gives up; each wait for it has the whole time. */
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
        const why =
          code === 'timeout'
            ? `not within ${timeoutMs} ms`
            : signal.aborted
              ? code
              : (cause?.code ?? message);
        throw new RowhouseError(code, `No answer from ${base}: ${why}.`, {
          hint: method === 'GET' ? undefined : 'It may have taken effect: look before you send it again.',
          cause: error,
        });
      } finally {
        clearTimeout(timer);
        given?.removeEventListener('abort', giveUp);
      }
    },
  };
}

/** How long to wait before a request goes out again; null: it does not. */
function waitBefore(error: unknown, attempt: number, isRepeatable: boolean): number | null {
  if (!isRowhouseError(error)) return null;
  const { code, status, retryable, retryAfterS = 0 } = error;
  const isLost = code === 'network_error' || (code === 'invalid_response' && status > 500);
  if (!nothingRan.test(code) && !(isRepeatable && (isLost || retryable))) return null;
  if (retryAfterS > longestWaitS) return null;
  return retryAfterS * 1000 + 200 * 2 ** attempt * (0.5 + Math.random() / 2);
}

/** What the service promises. `outcome_unknown` is no such code, nor is a deadlock: what a CALL committed itself stays. */
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
  return new RowhouseError('invalid_response', `What answers at ${base} is not Rowhouse (HTTP ${status}).`, {
    status,
  });
}

/** null: it is no JSON. `any`: somebody else made it. */
// biome-ignore lint/suspicious/noExplicitAny: said above
function tryParse(parse: () => unknown): any {
  try {
    return parse();
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** Browsers have randomUUID on https alone. The key has to be new, not secret. */
function newKey(): string {
  return crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}-${Math.random()}`;
}

function addressOf({ path, query = {} }: Call, root: readonly string[]): string {
  const segments = [...root, ...path];
  // A slug of ".." would name another path.
  if (segments.some((text) => /^\.{0,2}$/.test(text))) throw misuse('A name is missing.');
  const pairs = Object.entries(query).filter((pair) => pair[1] !== undefined);
  try {
    const search = pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
    return `${prefix}/${segments.map(encodeURIComponent).join('/')}${search && `?${search}`}`;
  } catch {
    throw misuse('A text holds half of a surrogate pair.');
  }
}

function readUrl(given: string): string {
  const url = URL.canParse(given) ? new URL(given) : null;
  if (!url || !/^https?:$/.test(url.protocol)) throw misuse(`"${given}" is not the address of a service.`);
  const folder = url.pathname.replace(/\/+$/, '');
  return url.origin + (folder.endsWith(prefix) ? folder.slice(0, -prefix.length) : folder);
}

/** Whoever gives up meanwhile is told by the request itself. */
function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener('abort', () => resolve(clearTimeout(timer)));
  });
}
