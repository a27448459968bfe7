import { expect, it } from 'vitest';
import { type Language, languages, snippet } from './snippet-texts.ts';

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

/** The JSON that the program sends. */
const sentBy: Record<Language, (text: string) => string | undefined> = {
  cURL: (text) => /-d '(.*)'/.exec(text)?.[1],
  TypeScript: (text) => /JSON\.stringify\((.*)\),/.exec(text)?.[1],
  Python: (text) => JSON.parse(/data=(".*")\.encode/.exec(text)?.[1] ?? 'null'),
  Go: (text) => /NewReader\(`(.*)`\)/.exec(text)?.[1],
  Rust: (text) => /send_string\(r#"(.*)"#\)/.exec(text)?.[1],
};
const unseen = [
  ...['\u007f', '\u0085', '\u00ad', '\u034f', '\u115f', '\u200b', '\u2028', '\u2029', '\u202e', '\u2066'],
  ...['\u3164', '\ufe00', '\ufe0f', '\ufeff', '\uffa0', '\u{1d173}', '\u{e0001}', '\u{e0041}', '\u{e007f}'],
];

it.each(languages)('%s contains no character that cannot be seen, and sends each', (language) => {
  const query = `select $$${unseen.join(' ')}$$`;
  const text = snippet(language, 'http://h', 'k', { ...request, body: { query } });
  expect(unseen.filter((character) => text.includes(character))).toEqual([]);
  // Some languages double the backslash of JSON.
  expect(text).toMatch(/\\+udb40\\+udc41/);
  expect(JSON.parse(sentBy[language](text) ?? 'null')).toEqual({ query });
});

it('characters that can be seen stay as they are, above U+FFFF too', () => {
  const body = { query: 'select $$Größe 茶 🍵$$' };
  expect(snippet('Go', 'http://h', 'k', { ...request, body })).toContain('select $$Größe 茶 🍵$$');
});

it('TypeScript sends a column with the name __proto__', () => {
  const body = JSON.parse('{"__proto__": 1}') as unknown;
  const text = snippet('TypeScript', 'http://h', 'k', { ...request, body });
  expect(text).toContain(String.raw`body: "{\"__proto__\":1}"`);
});
