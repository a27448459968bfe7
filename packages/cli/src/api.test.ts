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
    expect(() => readUrl(text)).toThrow('is not the address of a service'),
  );
});

describe('callApi', () => {
  const options = { url: 'http://127.0.0.1:1', key: 'rh_acct_x' };

  it.each(['', '.', '..'])('never sends a path that "%s" would turn into another', (slug) =>
    expect(() => callApi(options, 'DELETE', ['projects', slug])).toThrow('names nothing'),
  );

  it('says how to get a key before it asks anybody', () =>
    expect(() => callApi({ url: options.url, key: ' ' }, 'GET', ['projects'])).toThrow('needs an API key'));
});
