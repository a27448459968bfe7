import { expect, it } from 'vitest';
import { languages, snippet } from './snippet-texts.ts';

const request = { method: 'POST', path: 'projects/x/query', body: { query: "select 'a`b'" } } as const;

it.each(languages)('%s names the address and reads the key from the environment', (language) => {
  const text = snippet(language, 'http://127.0.0.1:8765', null, request);
  expect(text).toContain('http://127.0.0.1:8765/api/dbaas/v2/projects/x/query');
  expect(text).toContain('ROWHOUSE_API_KEY');
});

it('quotes cannot end the text around them', () => {
  expect(snippet('cURL', 'http://h', 'k', request)).toContain(String.raw`'{"query":"select '\''a`);
  expect(snippet('Go', 'http://h', 'k', request)).toContain('a` + "`" + `b');
});

it('no text can end the raw string of Rust', () => {
  const query = `# "# "### ${'#'.repeat(300)} x`;
  const text = snippet('Rust', 'http://h', 'k', { ...request, body: { query } });
  const [, json = '', after] = /send_string\(r#"([\s\S]*?)"#(.*)/.exec(text) ?? [];
  expect(JSON.parse(json)).toEqual({ query });
  expect(after).toBe(')?');
});

it.each(languages)('%s contains no character that cannot be seen', (language) => {
  const query = 'select \u202e\u2066 \ufeff \u200b \u2028';
  const text = snippet(language, 'http://h', 'k', { ...request, body: { query } });
  expect(text).not.toMatch(/[\u200b\u2028\u202e\u2066\ufeff]/);
  expect(text).toContain('u202e');
});

it('TypeScript sends a column with the name __proto__', () => {
  const body = JSON.parse('{"__proto__": 1}') as unknown;
  const text = snippet('TypeScript', 'http://h', 'k', { ...request, body });
  expect(text).toContain(String.raw`body: "{\"__proto__\":1}"`);
});
