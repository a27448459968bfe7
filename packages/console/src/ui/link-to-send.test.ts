import { expect, it } from 'vitest';
import { linkToSend } from './link-to-send.ts';

const here = { origin: 'http://127.0.0.1:8765', hostname: '127.0.0.1' };
const there = { origin: 'https://db.example.com', hostname: 'db.example.com' };
const local = 'http://127.0.0.1:8765/console/#invitation=abc';

it.each([
  ['a public name stays', 'https://db.example.com/console/#invitation=abc', here, false],
  ['a page with a public name lends it', local, there, false],
  ['a path gets that of the page', '/console/#invitation=abc', there, false],
])('%s', (_, link, page, isOnlyHere) => {
  expect(linkToSend(link, page)).toEqual({
    href: 'https://db.example.com/console/#invitation=abc',
    isOnlyHere,
  });
});

it.each([local, '/console/#invitation=abc', 'http://localhost:8765/console/#invitation=abc'])(
  '%s works only here',
  (link) => {
    expect(linkToSend(link, here).isOnlyHere).toBe(true);
  },
);
