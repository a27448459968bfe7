import { describe, expect, it } from 'vitest';
import { readCursor, writeCursor } from './cursor.ts';

const cursor = { table: 'public.teas', order: ['price.desc', 'id.asc'], values: ['12.50', null] };
const encode = (content: unknown) => Buffer.from(JSON.stringify(content)).toString('base64url');

describe('cursors', () => {
  it('come back as they went', () => {
    for (const values of [cursor.values, ['', '\u{1f600}"\\,'], [null, null]]) {
      const text = writeCursor({ ...cursor, values }) as string;
      expect(text).toMatch(/^[A-Za-z0-9_-]+$/);
      expect(readCursor(text)).toEqual({ ...cursor, values });
    }
  });

  it('are not made of values that are too long', () => {
    expect(writeCursor({ ...cursor, values: ['x'.repeat(10_000), null] })).toBeNull();
  });

  it.each([
    '',
    'x',
    '%%%',
    'a'.repeat(8_193),
    encode(null),
    encode({}),
    encode([1]),
    encode([1, 'a', ['b'], []]),
    encode([1, 'a', ['b'], [1]]),
    encode([1, 'a', ['b'], ['\0']]),
    encode([1, 'a', 'b', 'c']),
    encode([1, 2, ['b'], ['c']]),
    encode([2, 'a', ['b'], ['c']]),
    Buffer.from([91, 255, 93]).toString('base64url'),
    '['.repeat(5_000),
    Buffer.from('['.repeat(5_000)).toString('base64url'),
  ])('refuses %s', (text) => {
    expect(() => readCursor(text)).toThrow(/^cursor: /);
  });
});
