import { describe, expect, it } from 'vitest';
import { RowhouseError } from '../../errors/errors.ts';
import { readChangeRequest, readPageRequest } from './request.ts';

const read = (query: string) => readPageRequest(query);
const encode = encodeURIComponent;

/** The only problem of a query string that is refused. */
function problemOf(
  query: string,
  reader: (query: string) => unknown = read,
): { path: string; problem: string } {
  try {
    reader(query);
  } catch (error) {
    expect(error).toBeInstanceOf(RowhouseError);
    const { code, status, details } = error as RowhouseError;
    expect([code, status]).toEqual(['invalid_request', 400]);
    return (details as { path: string; problem: string }[])[0] as { path: string; problem: string };
  }
  throw new Error(`${query} was taken`);
}

/** The condition of one filter, without its parameter's name. */
function test(query: string) {
  const [condition] = read(query).where;
  const { parameter, ...rest } = condition as unknown as Record<string, unknown>;
  return rest;
}

const field = (name: string, ...steps: { arrow: '->' | '->>'; key: string | number }[]) => ({ name, steps });

describe('the page', () => {
  it('has defaults', () => {
    expect(read('')).toEqual({
      select: [{ is: 'all' }],
      where: [],
      order: [],
      limit: 50,
      page: 1,
      cursor: null,
      count: null,
      numbersAsStrings: false,
      maxValueChars: null,
    });
  });

  it('takes its own parameters', () => {
    expect(read('limit=10000&page=7&count=estimated&numbers=string')).toMatchObject({
      limit: 10_000,
      page: 7,
      count: 'estimated',
      numbersAsStrings: true,
    });
    expect(read('cursor=abc').cursor).toBe('abc');
    expect(read('max_value_chars=500').maxValueChars).toBe(500);
  });

  it.each([
    ['limit=0', 'limit'],
    ['limit=10001', 'limit'],
    ['limit=', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=1e3', 'limit'],
    ['limit=+5', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=99999999999999999999', 'limit'],
    ['limit=5&limit=5', 'limit'],
    ['page=0', 'page'],
    ['page=1000000001', 'page'],
    ['page=1&cursor=x', 'page'],
    ['count=yes', 'count'],
    ['numbers=big', 'numbers'],
    ['select=a&select=b', 'select'],
    ['a=%zz', ''],
    ['a=%C3', ''],
    ['a=eq.%00', ''],
  ])('refuses %s', (query, path) => {
    expect(problemOf(query).path).toBe(path);
  });

  it('bounds the number of parameters and the length', () => {
    expect(problemOf('a=eq.1&'.repeat(501)).problem).toContain('500');
    expect(problemOf(`a=eq.${'x'.repeat(1024 * 1024)}`).problem).toContain('longer');
  });
});

describe('filters', () => {
  it.each([
    'eq',
    'neq',
    'gt',
    'gte',
    'lt',
    'lte',
    'match',
    'imatch',
    'isdistinct',
    'cs',
    'cd',
    'ov',
    'sl',
    'sr',
    'nxr',
    'nxl',
    'adj',
  ])('%s', (operator) => {
    expect(test(`price=${operator}.1,(2).3`)).toEqual({
      is: 'test',
      field: field('price'),
      isNegated: false,
      operator,
      value: '1,(2).3',
    });
  });

  it('like takes asterisks, and only like does', () => {
    expect(test('a=like.*b*')).toMatchObject({ operator: 'like', value: '%b%' });
    expect(test('a=ilike.b*')).toMatchObject({ operator: 'ilike', value: 'b%' });
    expect(test('a=eq.b*')).toMatchObject({ operator: 'eq', value: 'b*' });
  });

  it('is', () => {
    for (const value of ['null', 'not_null', 'true', 'false', 'unknown']) {
      expect(test(`a=is.${value}`)).toMatchObject({ operator: 'is', value });
    }
    expect(test('a=not.is.NULL')).toMatchObject({ operator: 'is', value: 'null', isNegated: true });
    expect(problemOf('a=is.nothing').path).toBe('a');
  });

  it('in, with quotes and escapes', () => {
    const values = (list: string) => (test(`a=in.${encode(list)}`) as { values: string[] }).values;
    expect(values('()')).toEqual([]);
    expect(values('(1,2)')).toEqual(['1', '2']);
    expect(values('(,)')).toEqual(['', '']);
    expect(values('("a,b","c\\"d\\\\e)", f g )')).toEqual(['a,b', 'c"d\\e)', ' f g ']);
    expect(values('(a.b,{c})'.replace('{c}', 'c'))).toEqual(['a.b', 'c']);
    expect(values(`(${Array(10_000).fill('1').join(',')})`)).toHaveLength(10_000);
    expect(problemOf(`a=in.(${Array(10_001).fill('1').join(',')})`).problem).toContain('10000 values');
    for (const list of ['1,2', '(1', '(1))', '("a)', '("a"b)', '(1)2']) {
      expect(problemOf(`a=in.${encode(list)}`).path).toBe('a');
    }
  });

  it('any and all', () => {
    expect(test('a=eq(any).{1,2}')).toMatchObject({ operator: 'eq', each: 'any', values: ['1', '2'] });
    expect(test(`a=like(all).${encode('{"*a,b*", NULL ,"NULL",x*}')}`)).toMatchObject({
      each: 'all',
      values: ['%a,b%', null, 'NULL', 'x%'],
    });
    expect(test('a=eq(any).{}')).toMatchObject({ values: [] });
    for (const value of [
      'eq(any).1',
      'eq(any).{1',
      'eq(any).{1,}',
      'eq(some).{1}',
      'in(any).(1)',
      'cs(any).{1}',
      'eq(any).{{1}}',
      'eq(any).{1}x',
    ]) {
      expect(problemOf(`a=${encode(value)}`).path).toBe('a');
    }
  });

  it('full text', () => {
    expect(test('a=fts.cat')).toMatchObject({ operator: 'fts', config: null, value: 'cat' });
    expect(test('a=wfts(english).fat cats')).toMatchObject({
      operator: 'wfts',
      config: 'english',
      value: 'fat cats',
    });
    expect(test('a=not.plfts(english).x')).toMatchObject({ operator: 'plfts', isNegated: true });
  });

  it('JSON paths', () => {
    expect(test('data->>color=eq.red')).toMatchObject({
      field: field('data', { arrow: '->>', key: 'color' }),
    });
    expect(test('data->a->0->>-1=eq.red')).toMatchObject({
      field: field('data', { arrow: '->', key: 'a' }, { arrow: '->', key: 0 }, { arrow: '->>', key: -1 }),
    });
    expect(test(`${encode('data->"a.b"->"0"->>c-d')}=eq.1`)).toMatchObject({
      field: field(
        'data',
        { arrow: '->', key: 'a.b' },
        { arrow: '->', key: '0' },
        { arrow: '->>', key: 'c-d' },
      ),
    });
    for (const name of ['data->', 'data->>a->b', '->a', 'data->99999999999', `d${'->a'.repeat(33)}`]) {
      expect(problemOf(`${encode(name)}=eq.1`).path).toBe(name);
    }
  });

  it('names of every kind', () => {
    for (const name of [
      'first name',
      'größe',
      '日本',
      'a-b',
      'a$b',
      "it's",
      '__proto__',
      'constructor',
      '😀',
      'a;b',
    ]) {
      expect(test(`${encode(name)}=eq.1`)).toMatchObject({ field: field(name) });
    }
    expect(test(`${encode('"a.b"')}=eq.1`)).toMatchObject({ field: field('a.b') });
    expect(test(`${encode('"q\\"uo\\\\te"')}=eq.1`)).toMatchObject({ field: field('q"uo\\te') });
  });

  it('a repeated filter means both', () => {
    expect(read('a=gt.1&a=lt.5').where).toHaveLength(2);
  });

  it('columns with the name of a parameter', () => {
    expect(read('and=(limit.eq.5,or.eq.6,and.not.is.null,select.in.(1,2))').where).toMatchObject([
      {
        is: 'and',
        conditions: [
          { field: field('limit') },
          { field: field('or') },
          { field: field('and'), isNegated: true },
          { field: field('select') },
        ],
      },
    ]);
    expect(test('"limit"=eq.5')).toMatchObject({ field: field('limit') });
    expect(test('"or"=eq.5')).toMatchObject({ field: field('or') });
  });

  it.each([
    ['a=1', 'a'],
    ['a=', 'a'],
    ['a', 'a'],
    ['a=eq', 'a'],
    ['a=nope.1', 'a'],
    ['a=EQ.1', 'a'],
    ['a=not.not.eq.1', 'a'],
    ['a=constructor.1', 'a'],
    ['=eq.1', ''],
    ['a.b=eq.1', 'a.b'],
    ['not.a=eq.1', 'not.a'],
    ['a!b=eq.1', 'a!b'],
    ['a(b)=eq.1', 'a(b)'],
    ['"a=eq.1', '"a'],
    ['""=eq.1', '""'],
    ['a.=eq.1', 'a.'],
    ['*=eq.1', '*'],
  ])('refuses %s', (query, path) => {
    expect(problemOf(query).path).toBe(path);
  });

  it('says where a text goes wrong', () => {
    expect(problemOf('or=(a.eq.1,b.nope.2)').problem).toMatch(/character 11, before "nope.2\)"/);
    expect(problemOf('or=(a.eq.1').problem).toMatch(/at the end/);
  });
});

describe('and, or, not', () => {
  it('nest', () => {
    expect(read('or=(a.eq.1,and(b.gt.2,not.or(c.not.is.null,d.in.(1,2))))').where).toEqual([
      {
        is: 'or',
        isNegated: false,
        conditions: [
          { is: 'test', parameter: 'or', field: field('a'), isNegated: false, operator: 'eq', value: '1' },
          {
            is: 'and',
            isNegated: false,
            conditions: [
              {
                is: 'test',
                parameter: 'or',
                field: field('b'),
                isNegated: false,
                operator: 'gt',
                value: '2',
              },
              {
                is: 'or',
                isNegated: true,
                conditions: [
                  {
                    is: 'test',
                    parameter: 'or',
                    field: field('c'),
                    isNegated: true,
                    operator: 'is',
                    value: 'null',
                  },
                  {
                    is: 'test',
                    parameter: 'or',
                    field: field('d'),
                    isNegated: false,
                    operator: 'in',
                    values: ['1', '2'],
                  },
                ],
              },
            ],
          },
        ],
      },
    ]);
    expect(read('not.or=(a.eq.1)&not.and=(b.eq.2)').where).toMatchObject([
      { is: 'or', isNegated: true },
      { is: 'and', isNegated: true },
    ]);
  });

  it('values in them', () => {
    const values = (text: string) =>
      (read(`or=${encode(text)}`).where[0] as unknown as { conditions: { value: string }[] }).conditions.map(
        ({ value }) => value,
      );
    expect(values('(a.eq.b c,a.eq."x,(y)\\"z",a.eq.,a.cs.{1,"}",{2}},a.cs.{"k": [1, 2]})')).toEqual([
      'b c',
      'x,(y)"z',
      '',
      '{1,"}",{2}}',
      '{"k": [1, 2]}',
    ]);
    expect(values('(data->>a.eq.x,"q.r".lt.3)')).toEqual(['x', '3']);
  });

  it('have bounds', () => {
    const nested = (depth: number) => `and=${'(and'.repeat(depth - 1)}(a.eq.1)${')'.repeat(depth - 1)}`;
    expect(read(nested(16)).where).toHaveLength(1);
    expect(problemOf(nested(17)).problem).toContain('16 deep');
    expect(problemOf(nested(50_000)).problem).toContain('16 deep');
    const many = (count: number) => `or=(${Array(count).fill('a.eq.1').join(',')})`;
    expect(read(many(200)).where).toHaveLength(1);
    expect(problemOf(many(201)).problem).toContain('200 conditions');
    expect(problemOf(`${many(200)}&a=eq.1`).problem).toContain('200 conditions');
  });

  it.each([
    'or=',
    'or=a.eq.1',
    'or=()',
    'or=(a.eq.1,)',
    'or=(a.eq.1',
    'or=(a.eq.1)x',
    'or=(a)',
    'or=(a.eq)',
    'or=(and)',
    'or=(a.eq."b"c)',
    'or=(a.cs.{1)',
    'not.not.or=(a.eq.1)',
  ])('refuses %s', (query) => {
    expect(problemOf(query).path).toMatch(/or$/);
  });
});

describe('select', () => {
  const select = (text: string) => read(`select=${encode(text)}`).select;
  const column = (name: string, more: object = {}) => ({
    is: 'column',
    field: field(name),
    cast: null,
    alias: null,
    ...more,
  });

  it('columns, aliases, casts, paths', () => {
    expect(select('a, b ,*')).toEqual([column('a'), column('b'), { is: 'all' }]);
    expect(select('x:a')).toEqual([column('a', { alias: 'x' })]);
    expect(select('a::text')).toEqual([
      column('a', { cast: { name: 'text', isQuoted: false, size: '', dimensions: 0 } }),
    ]);
    expect(select('x:a::numeric(10,2)')).toEqual([
      column('a', { alias: 'x', cast: { name: 'numeric', isQuoted: false, size: '(10,2)', dimensions: 0 } }),
    ]);
    expect(select('a::double precision,b::int[]')).toEqual([
      column('a', { cast: { name: 'double precision', isQuoted: false, size: '', dimensions: 0 } }),
      column('b', { cast: { name: 'int', isQuoted: false, size: '', dimensions: 1 } }),
    ]);
    expect(select('a::"My Type"')).toEqual([
      column('a', { cast: { name: 'My Type', isQuoted: true, size: '', dimensions: 0 } }),
    ]);
    expect(select('data->a->>b,"x:y":"c.d"')).toEqual([
      column('data', { field: field('data', { arrow: '->', key: 'a' }, { arrow: '->>', key: 'b' }) }),
      column('c.d', { alias: 'x:y' }),
    ]);
  });

  it('embedded tables', () => {
    expect(select('id,author(name,w:books!fk(*)),comments!c_fk!inner(text),...t(a),e()')).toMatchObject([
      column('id'),
      {
        is: 'embed',
        name: 'author',
        hint: null,
        isInner: false,
        items: [column('name'), { name: 'books', alias: 'w', hint: 'fk', items: [{ is: 'all' }] }],
      },
      { is: 'embed', name: 'comments', hint: 'c_fk', isInner: true },
      { is: 'embed', name: 't', isSpread: true },
      { is: 'embed', name: 'e', items: [] },
    ]);
  });

  it('their filters, order and limit', () => {
    const { where, select: items } = read(
      'select=id,notes:comments(text,author(name))&a=eq.1&notes.text=eq.x&notes.order=id.desc&notes.limit=3&notes.or=(a.eq.1,b.eq.2)&notes.author.not.and=(name.eq.y)',
    );
    expect(where).toMatchObject([{ field: field('a') }]);
    expect(items[1]).toMatchObject({
      where: [{ field: field('text'), parameter: 'notes.text' }, { is: 'or' }],
      order: [{ field: field('id'), isDescending: true }],
      limit: 3,
      items: [{}, { where: [{ is: 'and', isNegated: true }] }],
    });
    expect(problemOf('select=comments(a)&comments.limit=0').path).toBe('comments.limit');
    expect(problemOf('select=comments(a)&comments.order=a&comments.order=a').path).toBe('comments.order');
    expect(problemOf('select=comments(a)&notes.a=eq.1').path).toBe('notes.a');
  });

  it('has bounds', () => {
    expect(select('a(b(c(d(e))))')).toHaveLength(1);
    expect(problemOf('select=a(b(c(d(e(f)))))').problem).toContain('4 deep');
    expect(
      problemOf(`select=${Array.from({ length: 17 }, (_, n) => `t${n}(a)`).join(',')}`).problem,
    ).toContain('16 tables');
    expect(problemOf(`select=${Array(1601).fill('a').join(',')}`).problem).toContain('1600 columns');
    expect(problemOf(`select=${'x'.repeat(64)}:a`).problem).toContain('63 bytes');
  });

  it.each([
    '',
    'a,',
    ',a',
    'a b(',
    'a(b',
    'a)',
    'a!',
    'a!x',
    'a!x!y(b)',
    'a:',
    ':a',
    'a::',
    "a::text'",
    'a::text;drop',
    'a.sum()',
    '...a',
    '...x:a(b)',
    '"a',
    'a(b)c',
    'a::int(1',
    'a->>b->c',
  ])('refuses %s', (text) => {
    expect(problemOf(`select=${encode(text)}`).path).toBe('select');
  });
});

describe('order', () => {
  const order = (text: string) => read(`order=${encode(text)}`).order;

  it('directions and nulls', () => {
    expect(order('a,b.desc,c.asc.nullsfirst,d.desc.nullslast,e.nullsfirst')).toEqual([
      { field: field('a'), isDescending: false, nullsFirst: false },
      { field: field('b'), isDescending: true, nullsFirst: true },
      { field: field('c'), isDescending: false, nullsFirst: true },
      { field: field('d'), isDescending: true, nullsFirst: false },
      { field: field('e'), isDescending: false, nullsFirst: true },
    ]);
    expect(order('data->>age.desc')).toMatchObject([
      { field: field('data', { arrow: '->>', key: 'age' }), isDescending: true },
    ]);
    expect(order('"a.desc".asc, desc')).toMatchObject([{ field: field('a.desc') }, { field: field('desc') }]);
  });

  it.each([
    '',
    'a,',
    'a.up',
    'a.desc.asc',
    'a.nullsfirst.desc',
    'a.desc.desc',
    'a,a',
    'a.nullsfirst.nullslast',
    'author(name)',
    'a b.',
    'a;b.x',
  ])('refuses %s', (text) => {
    expect(problemOf(`order=${encode(text)}`).path).toBe('order');
  });
});

describe('changes', () => {
  it('take filters, select and what the caller knows', () => {
    const request = readChangeRequest('id=eq.1&select=id&max_affected=3&limit=eq.5', ['max_affected']);
    expect(request.where).toMatchObject([{ field: field('id') }, { field: field('limit') }]);
    expect(request.own.get('max_affected')).toBe('3');
    expect(request.select).toHaveLength(1);
    expect(problemOf('select=a(b)', (query) => readChangeRequest(query, [])).path).toBe('select');
    expect(problemOf('x=1&x=2', (query) => readChangeRequest(query, ['x'])).path).toBe('x');
  });

  it('say what a parameter of another method, or of PostgREST, is for', () => {
    const change = (query: string) => problemOf(query, (text) => readChangeRequest(text, [])).problem;
    expect(change('id=eq.1&limit=1')).toBe('works with GET only');
    expect(change('id=eq.1&order=id.desc')).toBe('works with GET only');
    expect(problemOf('max_affected=1').problem).toContain('PATCH and DELETE');
    expect(problemOf('offset=20').problem).toContain('cursor');
    expect(problemOf('a=eqq.1').problem).toContain('unknown operator "eqq"; known operators: eq');
    expect(problemOf('select=price.sum()').problem).toContain('use SQL');
    expect(read('offset=not.eq.5').where).toMatchObject([{ field: field('offset'), isNegated: true }]);
  });
});
