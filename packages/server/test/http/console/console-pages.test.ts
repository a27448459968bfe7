// The pages and files of the console: what is served, how it is cached and compressed, and that nothing else can be read.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { listening, send } from '../../support/console-page.ts';
import { useTestService } from '../../support/helpers.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-console-'));
const script = `console.log(${JSON.stringify('x'.repeat(2000))});\n`;
const write = (name: string, content: string | Buffer) =>
  writeFileSync(path.join(folder, 'dist', name), content);
mkdirSync(path.join(folder, 'dist', 'assets'), { recursive: true });
write('index.html', '<!doctype html><title>Console</title>');
write('favicon.svg', '<svg xmlns="http://www.w3.org/2000/svg"/>');
write('assets/app-1a2b.js', script);
write('assets/app-1a2b.js.br', brotliCompressSync(script));
write('assets/app-1a2b.js.gz', gzipSync(script));
write('assets/app-1a2b.css', 'body{}');
write('assets/secret.env', 'SECRET');
writeFileSync(path.join(folder, 'outside.txt'), 'OUTSIDE');
afterAll(() => rmSync(folder, { recursive: true }));

const rowhouse = useTestService({ spares: 0, console: { hosts: [], folder: path.join(folder, 'dist') } });
const get = async (url: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' = 'GET') => {
  const answer = await rowhouse.app.inject({ method, url, headers: { host: '127.0.0.1:8765', ...headers } });
  return { status: answer.statusCode, headers: answer.headers, text: answer.body, bytes: answer.rawPayload };
};

/** The path as it is: a client library would resolve the dots. */
const over = async (url: string) =>
  send(await listening(rowhouse), 'GET', url, { headers: { host: '127.0.0.1:8765' } });

describe('pages', () => {
  it.each([
    ['/console/'],
    ['/console/projects/my-shop/tables/tea'],
    ['/console/index.html'],
    ['/console/?x=1'],
    ['/console/api'],
  ])('%s is the page, which is not stored', async (url) => {
    const { status, headers, text } = await get(url);
    expect([status, text.includes('<title>Console')]).toEqual([200, true]);
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
    });
    expect(headers).not.toHaveProperty('set-cookie');
  });

  it('links from other sites lead to the page, and HEAD works', async () => {
    const headers = {
      'sec-fetch-site': 'cross-site',
      'sec-fetch-mode': 'navigate',
      'sec-fetch-dest': 'document',
    };
    expect((await get('/console/', headers)).status).toBe(200);
    const head = await get('/console/', {}, 'HEAD');
    expect([head.status, head.text]).toEqual([200, '']);
  });

  it('/ and /console lead a browser there, and programs still get 404 for /', async () => {
    const browser = { accept: 'text/html,application/xhtml+xml,*/*;q=0.8' };
    for (const url of ['/', '/console']) {
      const { status, headers } = await get(url, browser);
      expect([status, headers.location]).toEqual([302, '/console/']);
    }
    for (const accept of ['*/*', 'application/json'])
      expect([
        (await get('/', { accept })).status,
        JSON.parse((await get('/', { accept })).text).error.code,
      ]).toEqual([404, 'route_not_found']);
  });
});

describe('files', () => {
  it('with a hash in their name are kept for good, and come as they were compressed', async () => {
    const url = '/console/assets/app-1a2b.js';
    const plain = await get(url);
    expect(plain.headers).toMatchObject({
      'content-type': 'text/javascript; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'accept-encoding',
      'x-content-type-options': 'nosniff',
    });
    expect(plain.text).toBe(script);
    const accepting = async (header: string) => {
      const { headers, bytes } = await get(url, { 'accept-encoding': header });
      return { encoding: headers['content-encoding'], bytes };
    };
    const br = await accepting('gzip, deflate, br;q=1.0, zstd');
    expect([br.encoding, brotliDecompressSync(br.bytes).toString()]).toEqual(['br', script]);
    const gzip = await accepting('br;q=0, gzip');
    expect([gzip.encoding, gunzipSync(gzip.bytes).toString()]).toEqual(['gzip', script]);
    for (const header of ['identity', 'broken', 'gzip;q=0.0'])
      expect((await accepting(header)).encoding).toBeUndefined();
    expect(
      (await get('/console/assets/app-1a2b.css', { 'accept-encoding': 'br' })).headers,
    ).not.toHaveProperty('content-encoding');
  });

  it('without one are asked for again each time', async () => {
    const { headers } = await get('/console/favicon.svg');
    expect(headers).toMatchObject({ 'content-type': 'image/svg+xml', 'cache-control': 'no-cache' });
    const again = await get('/console/favicon.svg', { 'if-none-match': String(headers.etag) });
    expect([again.status, again.text]).toEqual([304, '']);
  });

  it.each([
    ['/console/assets/none.js'],
    ['/console/assets/'],
    ['/console/assets/app-1a2b.js.br'],
    ['/console/assets/secret.env'],
    ['/console/assets/../../outside.txt'],
    ['/console/assets/..%2f..%2foutside.txt'],
    ['/console/assets/%2e%2e/%2e%2e/outside.txt'],
    ['/console/assets/..%5c..%5coutside.txt'],
    ['/console/assets/%00'],
    ['/console/assets/__proto__'],
  ])('%s is none', async (url) => {
    const { status, text, headers } = await over(url);
    expect(text).not.toMatch(/OUTSIDE|SECRET/);
    expect([status, headers['cache-control']]).toEqual([404, 'no-store']);
  });

  it('outside of assets, no path leaves the folder either', async () => {
    for (const url of [
      '/console/..%2foutside.txt',
      '/console/../outside.txt',
      '/console/%2e%2e/outside.txt',
      '/console//etc/passwd',
    ]) {
      const { text } = await over(url);
      expect(text).not.toMatch(/OUTSIDE|root:/);
    }
  });
});

it('the OpenAPI document does not contain the console', async () => {
  const paths = Object.keys(JSON.parse((await get('/openapi.json')).text).paths);
  expect(paths.filter((name) => name === '/' || name.startsWith('/console'))).toEqual([]);
  expect(paths.length).toBeGreaterThan(20);
});

describe('before it is built', () => {
  const unbuilt = useTestService({ spares: 0, console: { hosts: [], folder: null } });

  it('a page says so, and how to build it', async () => {
    for (const url of ['/console/', '/console/projects']) {
      const answer = await unbuilt.app.inject({ url, headers: { host: 'localhost' } });
      expect([answer.statusCode, answer.headers['content-type']]).toEqual([503, 'text/html; charset=utf-8']);
      expect(answer.body).toContain('npm run build');
      expect(answer.headers['content-security-policy']).toContain("frame-ancestors 'none'");
    }
  });
});
