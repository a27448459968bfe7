import { apiPrefix } from '@rowhouse/api';
import { expect, it } from 'vitest';
import { readRequestHead } from './request-head.ts';

const url = `${apiPrefix}/projects/shop/tables/items?name=like.a*&limit=50`;
const head = (more = '', line = `POST ${url} HTTP/1.1`) =>
  Buffer.from(`${line}\r\nHost: x\r\n${more}\r\n`, 'latin1');

it('reads what clients and proxies send', () => {
  const sent = [
    'User-Agent: curl/8',
    'Accept: */*',
    'Accept-Encoding: gzip, deflate',
    'Accept-Language: *',
    'Sec-Fetch-Mode: cors',
    'Connection: Keep-Alive',
    'Content-Type:application/json',
    'Content-Length: 12',
    'X-API-Key: rh_key ',
    'X-Forwarded-For: 10.0.0.1, 10.0.0.2',
    'CF-Ray: 1',
    'Traceparent: 00-1-2-01',
  ];
  const bytes = head(`${sent.join('\r\n')}\r\n`);
  const read = readRequestHead(Buffer.concat([bytes, Buffer.from('the body: 12')]));
  expect(read).toMatchObject({ method: 'POST', url, headBytes: bytes.length, bodyBytes: 12 });
  expect(read?.headers).toMatchObject({
    host: 'x',
    'content-type': 'application/json',
    'x-api-key': 'rh_key',
    'x-forwarded-for': '10.0.0.1, 10.0.0.2',
  });
  expect(Object.keys(read?.headers ?? {})).toHaveLength(sent.length + 1);
});

it('reads a request without a body', () => {
  expect(readRequestHead(head('', `GET ${url} HTTP/1.1`))).toMatchObject({ method: 'GET', bodyBytes: 0 });
});

it.each([
  ['no end', head().subarray(0, -1)],
  ['nothing', Buffer.alloc(0)],
  ['another method', head('', `PUT ${url} HTTP/1.1`)],
  ['another path', head('', `GET ${apiPrefix}/account HTTP/1.1`)],
  ['a path that is not encoded', head('', `GET ${url}"x" HTTP/1.1`)],
  ['a header that is not known', head('Range: bytes=0-\r\n')],
  ['a name with an underscore', head('X_Api_Key: a\r\n')],
  ['a name of a property', head('__proto__: a\r\n')],
  ['a header without a name', head(': a\r\n')],
  ['a tab', head('Accept:\ta\r\n')],
  ['no host', Buffer.from(`GET ${url} HTTP/1.1\r\nAccept: a\r\n\r\n`)],
  ['an empty host', head().subarray(0, -2).toString().replace('x\r\n', '\r\n\r\n')],
  ['two connections', head('Connection: keep-alive, close\r\n')],
  ['an endless length', head(`Content-Length: ${'9'.repeat(10)}\r\n`)],
  ['a negative length', head('Content-Length: -1\r\n')],
  ['a length in parts', head('Content-Length: 1 2\r\n')],
])('leaves to Node: %s', (_name, bytes) => {
  expect(readRequestHead(Buffer.from(bytes))).toBeNull();
});

it('reads heads of up to 8 KB, in time that grows with their length only', () => {
  const filled = (size: number) => head(`X-A: ${'a'.repeat(size)}\r\n`);
  expect(readRequestHead(filled(8_000))).not.toBeNull();
  expect(readRequestHead(filled(8_200))).toBeNull();
  const hostile = Buffer.from(`GET ${url} HTTP/1.1\r\n${'a:\r\n'.repeat(2_000)}\0\r\n\r\n`);
  const began = performance.now();
  for (let n = 0; n < 100; n++) expect(readRequestHead(hostile)).toBeNull();
  expect(performance.now() - began).toBeLessThan(2_000);
});
