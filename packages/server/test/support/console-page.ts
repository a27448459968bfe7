// The page of the console as a browser runs it: the headers that browsers add, the cookie, and the token of the page.
import { type IncomingHttpHeaders, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect } from 'vitest';
import { api, type TestService } from './helpers.ts';

// biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of many shapes
export type PageAnswer = { status: number; headers: IncomingHttpHeaders; body: any; text: string };
/** undefined: the header is left out. */
type Headers = Record<string, string | string[] | undefined>;
type Sent = { headers?: Headers; body?: unknown; raw?: string };

export const consoleApi = `/console${api}`;

/** The port on which the service listens; it begins to, the first time. */
export async function listening({ app }: TestService): Promise<number> {
  if (!app.server.listening) await app.listen({ host: '127.0.0.1', port: 0 });
  return (app.server.address() as AddressInfo).port;
}

/** One request over HTTP with exactly these headers. */
export function send(
  port: number,
  method: string,
  path: string,
  { headers, raw }: Sent = {},
): Promise<PageAnswer> {
  const given = Object.entries(headers ?? {}).filter(([, value]) => value !== undefined);
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port, method, path, agent: false, setHost: false };
    const sent = request({ ...options, headers: Object.fromEntries(given) as Record<string, string> });
    sent.once('error', reject);
    sent.once('response', async (response) => {
      const answer = await text(response);
      const isJson = response.headers['content-type']?.includes('json') && answer !== '';
      resolve({
        status: response.statusCode ?? 0,
        headers: response.headers,
        text: answer,
        body: isJson ? JSON.parse(answer) : answer,
      });
    });
    sent.end(raw);
  });
}

let signIns = 0;

export class Page {
  readonly port: number;
  readonly host: string;
  readonly origin: string;
  /** name=value */
  cookie: string | undefined;
  token: string | undefined;

  /** `origin`: as the browser's address bar shows it. */
  constructor(port: number, origin = `http://127.0.0.1:${port}`) {
    this.port = port;
    // A browser leaves out the port that the scheme implies.
    this.origin = new URL(origin).origin;
    this.host = new URL(origin).host;
  }

  headers(method: string): Headers {
    return {
      host: this.host,
      'sec-fetch-site': 'same-origin',
      'sec-fetch-mode': 'cors',
      'sec-fetch-dest': 'empty',
      origin: method === 'GET' ? undefined : this.origin,
      cookie: this.cookie,
      'rowhouse-console-token': this.token,
    };
  }

  async call(method: string, path: string, { headers, body, raw }: Sent = {}): Promise<PageAnswer> {
    const payload = raw ?? (body === undefined ? undefined : JSON.stringify(body));
    const type = {
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(payload ?? '')),
    };
    const answer = await send(this.port, method, path.startsWith('/console') ? path : consoleApi + path, {
      headers: { ...this.headers(method), ...(payload !== undefined && type), ...headers },
      ...(payload !== undefined && { raw: payload }),
    });
    const [cookie] = answer.headers['set-cookie'] ?? [];
    if (cookie !== undefined) this.cookie = cookie.split(';')[0];
    return answer;
  }

  async signIn(
    body: { api_key: string } | { link: string } | { email: string; password: string; code?: string },
    headers: Headers = {},
  ): Promise<PageAnswer> {
    // Each page on a machine of its own, for the limit of failed attempts, if the service trusts proxies.
    const address = { 'x-forwarded-for': `10.1.${Math.floor(++signIns / 250)}.${signIns % 250}` };
    const answer = await this.call('POST', '/console/session', { body, headers: { ...address, ...headers } });
    if (answer.status === 201) this.token = answer.body.token;
    return answer;
  }
}

export async function openPage(
  service: TestService,
  apiKey = service.accountKey,
  origin?: string,
): Promise<Page> {
  const page = new Page(await listening(service), origin);
  const answer = await page.signIn({ api_key: apiKey });
  expect(answer.status, answer.text).toBe(201);
  return page;
}

export function outcome({ status, body }: PageAnswer): [status: number, code: string | undefined] {
  return [status, body?.error?.code];
}
