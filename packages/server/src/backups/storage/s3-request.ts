// Sends one signed request to an S3 service, and repeats it if the service is busy or cannot be reached. Every request
// here can be repeated without harm: an upload either creates an object or is refused because it exists.
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { setTimeout as sleep } from 'node:timers/promises';
import { withoutBrackets } from '../../lib/networks.ts';
import type { S3Location } from '../../settings/backup-url.ts';
import { sign } from './s3-signature.ts';
import { StorageError } from './storage.ts';

export type S3Request = {
  method: 'GET' | 'PUT' | 'POST' | 'DELETE' | 'HEAD';
  /** Within the bucket and the prefix. null: the bucket itself. */
  name: string | null;
  query?: Readonly<Record<string, string>>;
  headers?: Readonly<Record<string, string>>;
  body?: Uint8Array;
  signal?: AbortSignal | undefined;
};
/**
 * `code`: S3's own error code, such as NoSuchKey. Empty for a success, whose body is not read yet. `attempt`: above 1, an earlier
 * attempt may have taken effect although its answer was lost.
 */
export type S3Response = {
  status: number;
  code: string;
  attempt: number;
  response: IncomingMessage;
  text(): Promise<string>;
};

const attempts = 5;
const firstPauseMs = 200;
/** Without a byte in either direction. */
const silenceMs = 30_000;
const maxTextBytes = 16 * 1024 * 1024;

export type S3Client = { send(request: S3Request): Promise<S3Response>; close(): void };

export function openS3Client(location: S3Location): S3Client {
  const { bucket, prefix, region, endpoint, credentials } = location;
  const url = new URL(endpoint ?? `https://${bucket}.s3.${region}.amazonaws.com`);
  const isSecure = url.protocol === 'https:';
  const agent = isSecure ? new HttpsAgent({ keepAlive: true }) : new HttpAgent({ keepAlive: true });
  const start = isSecure ? httpsRequest : httpRequest;

  const pathOf = (name: string | null): string => {
    const inBucket = name === null ? '' : prefix === '' ? name : `${prefix}/${name}`;
    return endpoint === null ? `/${inBucket}` : `/${bucket}${inBucket && `/${inBucket}`}`;
  };

  const once = (request: S3Request): Promise<IncomingMessage> => {
    const { method, name, query = {}, headers = {}, body = Buffer.alloc(0), signal } = request;
    const unsigned = { method, host: url.host, path: pathOf(name), query, headers, body };
    const signed = sign(unsigned, credentials, region, new Date());
    return new Promise((resolve, reject) => {
      const sent = start({
        hostname: withoutBrackets(url.hostname),
        ...(url.port && { port: url.port }),
        method,
        path: signed.path,
        agent,
        headers: { ...signed.headers, 'content-length': body.length },
        ...(signal && { signal }),
      });
      sent.setTimeout(silenceMs, () => sent.destroy(new Error('The S3 service does not answer.')));
      sent.on('error', reject);
      sent.on('response', resolve);
      sent.end(body);
    });
  };

  const send = async (request: S3Request): Promise<S3Response> => {
    for (let attempt = 1; ; attempt++) {
      const answer = await once(request)
        .then((response) => read(response, attempt))
        .catch((error: Error) => error);
      request.signal?.throwIfAborted();
      if (!(answer instanceof Error) && !isBusy(answer.status)) return answer;
      if (attempt === attempts) throw unavailable(url.host, answer);
      await sleep(firstPauseMs * 2 ** (attempt - 1) * (0.5 + Math.random()), undefined, {
        signal: request.signal,
      });
    }
  };

  return { send, close: () => agent.destroy() };
}

/** The body of an error is read at once: its code decides what happens next, and an unread body holds the connection. */
async function read(response: IncomingMessage, attempt: number): Promise<S3Response> {
  const status = response.statusCode ?? 0;
  if (status >= 200 && status < 300) {
    return { status, code: '', attempt, response, text: () => readText(response) };
  }
  const text = await readText(response);
  return { status, code: elementOf(text, 'Code') ?? '', attempt, response, text: async () => text };
}

async function readText(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const piece of response.setEncoding('utf8')) {
    text += piece;
    if (text.length > maxTextBytes) throw new Error('The S3 service sent an answer that is too long.');
  }
  return text;
}

/** 501 means that the service does not know the request: it will not know it later. */
function isBusy(status: number): boolean {
  return status === 429 || status === 408 || (status >= 500 && status !== 501);
}

function unavailable(host: string, answer: Error | S3Response): StorageError {
  const reason =
    answer instanceof Error
      ? answer.message || (answer as NodeJS.ErrnoException).code
      : `it answers ${answer.status} ${answer.code}`;
  return new StorageError('unavailable', `The S3 service ${host} cannot be used: ${reason}`, {
    cause: answer instanceof Error ? answer : undefined,
  });
}

/** The content of the first element of this name. S3's answers are flat enough for this. */
export function elementOf(xml: string, name: string): string | null {
  const found = new RegExp(`<${name}>([^<]*)</${name}>`).exec(xml)?.[1];
  return found === undefined ? null : decodeXml(found);
}

export function elementsOf(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>(.*?)</${name}>`, 'gs'))].map((match) => match[1] ?? '');
}

function decodeXml(text: string): string {
  const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };
  return text.replace(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (whole, decimal, hex, name) => {
    if (decimal) return String.fromCodePoint(Number(decimal));
    if (hex) return String.fromCodePoint(Number.parseInt(hex, 16));
    return entities[name] ?? whole;
  });
}
