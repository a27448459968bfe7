import { describe, expect, it } from 'vitest';
import { readPageRequest } from './request.ts';
import { isParameterized, shapeOf, withValues } from './shape.ts';

describe('the shape of a query string', () => {
  it('is the query string without the values of its comparisons', () => {
    expect(shapeOf('limit=5&id=gte.7&name=eq.a%20b+c&order=id.desc')).toEqual({
      text: 'limit=5&id=gte.\n&name=eq.\n&order=id.desc',
      values: ['7', 'a b c'],
    });
    expect(shapeOf('id=eq.')).toEqual({ text: 'id=eq.\n', values: [''] });
    expect(shapeOf('')).toEqual({ text: '', values: [] });
  });

  it.each([
    'id=not.eq.7',
    'id=in.(1,2)',
    'id=is.null',
    'name=like.a*',
    'id=eq(any).{1,2}',
    'or=(id.eq.1,id.eq.2)',
    'data->>n=eq.1',
    'comments.id=eq.1',
    '"limit"=eq.5',
    '%69d=eq.5',
    // Columns may be named like operators.
    'order=eq.asc',
    'select=eq.x',
    `name=eq.${'x'.repeat(300)}`,
  ])('is all of %s', (query) => {
    expect(shapeOf(query)).toEqual({ text: query, values: [] });
  });

  it.each(['id=eq.%zz', 'id=eq.%00'])('does not exist for %s, which cannot be decoded', (query) => {
    expect(() => shapeOf(query)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
  });

  it.each([
    ['id=gte.7&name=eq.a%20b', 'id=gte.5&name=eq.'],
    ['id=gte.7&id=lt.9&limit=3', 'id=gte.5&id=lt.6&limit=3'],
  ])('gives the same request as parsing: %s', (query, other) => {
    expect(shapeOf(other).text).toBe(shapeOf(query).text);
    expect(withValues(readPageRequest(other), shapeOf(query))).toEqual(readPageRequest(query));
  });
});

describe('a request whose parameters are the values of its shape', () => {
  const isFor = (query: string, params: readonly string[]) =>
    isParameterized(readPageRequest(query), params, shapeOf(query));

  it('has nothing else that became a parameter', () => {
    expect(isFor('id=gte.7&name=eq.a', ['7', 'a'])).toBe(true);
    expect(isFor('id=gte.7&name=eq.a', ['a', '7'])).toBe(false);
    expect(isFor('id=gte.7', ['7', '50'])).toBe(false);
    expect(isFor('id=gte.7&name=like.a*', ['7', 'a%'])).toBe(false);
    expect(isFor('id=gte.7&or=(a.eq.1,a.eq.2)', ['7', '1', '2'])).toBe(false);
    expect(isFor('id=gte.7&select=*,comments(*)&comments.id=eq.9', ['7', '9'])).toBe(false);
  });
});
