import { expect, it } from 'vitest';
import { isSlug, slugFromName } from './slug.ts';

it('whatever the name, the slug is valid', () => {
  const names = [
    'My Shop',
    'x',
    '--',
    '🙂',
    'ß',
    '中文',
    'a'.repeat(100),
    '-a-b-',
    "O'Brien & Söhne",
    'ｆｕｌｌ',
    '\u202Eevil',
    'a\u0301'.repeat(60),
  ];
  for (const name of names) {
    for (let attempt = 0; attempt < 20; attempt++) {
      const slug = slugFromName(name, attempt);
      expect(isSlug(slug), `${name} → ${slug}`).toBe(true);
    }
  }
});

it('reads as one would spell it', () => {
  expect(slugFromName('My Shop', 0)).toBe('my-shop');
  expect(slugFromName('Straße nach Köln', 0)).toBe('strasse-nach-koln');
  expect(slugFromName("Ann's tea", 0)).toBe('anns-tea');
  expect(slugFromName('My Shop', 1)).toMatch(/^my-shop-\w{5}$/);
});
