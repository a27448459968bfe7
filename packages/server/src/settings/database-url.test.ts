import { expect, it } from 'vitest';
import { splitHosts } from './database-url.ts';

it.each([
  ['postgres://u:p@h/d', ['h']],
  ['postgresql://u@h1:5432,h2:5433/d?sslmode=require', ['h1:5432', 'h2:5433']],
  ['postgres://u:p%40s@[::1]:6000,db.example.com', ['[::1]:6000', 'db.example.com']],
])('%s', (text, hosts) => {
  const urls = splitHosts(text) ?? [];
  expect(urls.map(({ host }) => host)).toEqual(hosts);
  for (const url of urls) expect(url.username).toBe('u');
});

it.each([
  'mysql://u@h/d',
  'postgres://h/d',
  'postgres://@h/d',
  'postgres://u@/d',
  'postgres://u@h1,/d',
  'postgres://u@,h2/d',
  'postgres://u@h1,h1/d',
  'postgres://u@h1:99999/d',
  'postgres://u:%zz@h/d',
  'postgres://u@h1,h2,h3,h4,h5,h6,h7,h8,h9/d',
])('refuses %s', (text) => {
  expect(splitHosts(text)).toBeNull();
});
