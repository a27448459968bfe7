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
