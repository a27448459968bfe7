import { describe, expect, it } from 'vitest';
import { callApi, readUrl } from './api.ts';

describe('readUrl', () => {
  it.each([
    ['http://127.0.0.1:8765', 'http://127.0.0.1:8765'],
    [' https://db.example.com/ ', 'https://db.example.com'],
    ['http://[::1]:8765', 'http://[::1]:8765'],
    ['https://example.com/rowhouse/', 'https://example.com/rowhouse'],
    ['http://127.0.0.1:8765/api/dbaas/v2/', 'http://127.0.0.1:8765'],
  ])('takes %s', (text, url) => expect(readUrl(text)).toBe(url));

  it.each(['localhost:8765', '127.0.0.1', 'ftp://a/', 'http://user:secret@host/'])('refuses %s', (text) =>
    expect(() => readUrl(text)).toThrow('is not a valid service address'),
  );
});

describe('callApi', () => {
  const options = { url: 'http://127.0.0.1:1', key: 'rh_acct_x' };

  it.each(['', '.', '..'])('refuses "%s" as a path segment', (slug) =>
    expect(() => callApi(options, 'DELETE', ['projects', slug])).toThrow('is not a valid name'),
  );

  it('asks for a key before it sends a request', () =>
    expect(() => callApi({ url: options.url, key: ' ' }, 'GET', ['projects'])).toThrow('needs an API key'));
});
