// AWS Signature Version 4, for requests whose whole body is known. The body's hash is signed, so that a body that was
// damaged on its way is refused.
import { createHash, createHmac } from 'node:crypto';
import type { Credentials } from '../../settings/backup-url.ts';

export type Unsigned = {
  method: string;
  host: string;
  /** Segments are not encoded yet. */
  path: string;
  query: Readonly<Record<string, string>>;
  headers: Readonly<Record<string, string>>;
  body: Uint8Array;
};

/** The path with its query as it must be sent, and all headers. */
export function sign(
  request: Unsigned,
  { accessKeyId, secretAccessKey, sessionToken }: Credentials,
  region: string,
  now: Date,
): { path: string; headers: Record<string, string> } {
  const time = now.toISOString().replace(/[-:]|\.\d{3}/g, '');
  const day = time.slice(0, 8);
  const path = request.path.split('/').map(encode).join('/');
  const query = Object.entries(request.query)
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .sort()
    .join('&');
  const headers: Record<string, string> = {
    ...lowerCased(request.headers),
    host: request.host,
    'x-amz-date': time,
    'x-amz-content-sha256': sha256(request.body),
    ...(sessionToken !== null && { 'x-amz-security-token': sessionToken }),
  };
  const names = Object.keys(headers).sort();
  const canonical = [
    request.method,
    path,
    query,
    ...names.map((name) => `${name}:${headers[name]?.trim()}`),
    '',
    names.join(';'),
    headers['x-amz-content-sha256'],
  ].join('\n');
  const scope = `${day}/${region}/s3/aws4_request`;
  const key = [day, region, 's3', 'aws4_request'].reduce<string | Buffer>(
    (secret, text) => createHmac('sha256', secret).update(text).digest(),
    `AWS4${secretAccessKey}`,
  );
  const signature = createHmac('sha256', key)
    .update(['AWS4-HMAC-SHA256', time, scope, sha256(canonical)].join('\n'))
    .digest('hex');
  const authorization = `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope},SignedHeaders=${names.join(';')},Signature=${signature}`;
  return { path: query ? `${path}?${query}` : path, headers: { ...headers, authorization } };
}

function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function lowerCased(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
