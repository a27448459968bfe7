import { expect, it } from 'vitest';
import { isOnlyHere } from './shared-links.ts';

it.each([
  ['http://127.0.0.1:8765/console/#invitation=x', true],
  ['http://127.1.2.3/console/', true],
  ['http://localhost:8765/console/', true],
  ['http://[::1]:8765/console/', true],
  ['/console/#invitation=x', true],
  ['https://db.example.com/console/#invitation=x', false],
  ['https://127.0.0.1.example.com/', false],
])('%s', (link, isLocal) => {
  expect(isOnlyHere(link)).toBe(isLocal);
});
