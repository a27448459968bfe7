import { describe, expect, it } from 'vitest';
import { openJsonLines } from './json-lines.ts';
import type { ImportColumn } from './line-copier.ts';

async function* inPieces(text: string | Buffer, size = 1_000_000): AsyncGenerator<Buffer, void> {
  const bytes = Buffer.from(text as string);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const plain = (name: string): ImportColumn => ({ name, isJson: false, isArray: false });

async function convert(
  text: string | Buffer,
  {
    size = 1_000_000,
    kinds = {},
    maxBytes = 8_000_000,
  }: { size?: number; kinds?: Kinds; maxBytes?: number } = {},
): Promise<string> {
  const lines = await openJsonLines(inPieces(text, size), { maxBytes });
  const columns = lines.names.map((name) => ({ ...plain(name), ...kinds[name] }));
  const rows: Buffer[] = [];
  for await (const piece of lines.rows(columns)) rows.push(piece);
  return Buffer.concat(rows).toString();
}
type Kinds = Record<string, Partial<ImportColumn>>;

const failure = async (text: string | Buffer, options = {}) => {
  const error = await convert(text, options).then(
    (result) => new Error(`no failure but ${result}`),
    (thrown) => thrown,
  );
  return [error.status, error.code, error.message];
};

describe('values', () => {
  it('as COPY reads them', async () => {
    const row = {
      a: null,
      b: 'tab\there\nline\rreturn \\N \\. "quoted" é 😀',
      c: 12.5,
      d: true,
      e: { x: ['y\n'] },
      f: '',
      g: -0.1,
    };
    expect(await convert(JSON.stringify(row))).toBe(
      '\\N\ttab\\there\\nline\\rreturn \\\\N \\\\. "quoted" é 😀\t12.5\ttrue\t{"x":["y\\\\n"]}\t\t-0.1\n',
    );
  });

  it('numbers with all their digits', async () => {
    const big = '12345678901234567890.123456789';
    const text = `{"a": ${big}, "b": 9007199254740993, "c": 1e400, "d": {"n": ${big}}, "e": [${big}, [1]]}`;
    expect(await convert(text, { kinds: { d: { isJson: true }, e: { isArray: true } } })).toBe(
      `${big}\t9007199254740993\t1e400\t{"n": ${big}}\t{"${big}",{"1"}}\n`,
    );
  });

  it('by the kind of their column', async () => {
    const kinds: Kinds = {
      json: { isJson: true },
      array: { isArray: true },
      both: { isJson: true, isArray: true },
    };
    const of = (value: unknown) =>
      convert(JSON.stringify({ json: value, array: value, both: value, text: value }), { kinds });
    expect(await of('a"b')).toBe('"a\\\\"b"\ta"b\ta"b\ta"b\n');
    expect(await of(['a', null, [1]])).toBe(
      '["a",null,[1]]\t{"a",NULL,{"1"}}\t{"\\\\"a\\\\"",NULL,"[1]"}\t["a",null,[1]]\n',
    );
    expect(await of(null)).toBe('\\N\t\\N\t\\N\t\\N\n');
    expect(await of(false)).toBe('false\tfalse\tfalse\tfalse\n');
  });

  it('columns in the order that is asked for', async () => {
    const lines = await openJsonLines(inPieces('{"a": 1, "b": 2}\n{"b": 3, "a": 4}'));
    const rows: Buffer[] = [];
    for await (const piece of lines.rows([plain('b'), plain('a')])) rows.push(piece);
    expect(Buffer.concat(rows).toString()).toBe('2\t1\n3\t4\n');
  });
});

describe('lines', () => {
  const text = '{"a": 1, "é": "ü\\n"}\r\n{"a": 2, "é": "😀"}\n  {"é": null, "a": 3}  \n\n \r\n';

  it.each([1, 2, 3, 7, 19, 1000])('in pieces of %i bytes', async (size) => {
    expect(await convert(text, { size })).toBe('1\tü\\n\n2\t😀\n3\t\\N\n');
    expect(await convert(text.trimEnd(), { size })).toBe('1\tü\\n\n2\t😀\n3\t\\N\n');
    expect(await convert(`\uFEFF${text}`, { size })).toBe('1\tü\\n\n2\t😀\n3\t\\N\n');
  });

  it('up to a limit, with its number', async () => {
    const long = (length: number) => `{"a":"${'x'.repeat(length - 8)}"}`;
    expect(await convert(`${long(100)}\n${long(100)}`, { maxBytes: 100 })).toContain('xxx');
    for (const size of [1, 64, 1000]) {
      const text = `${long(100)}\n${long(101)}\n`;
      expect(await failure(text, { maxBytes: 100, size })).toEqual([
        ...[400, 'invalid_request'],
        'line 2: is longer than 100 bytes, the limit for a line',
      ]);
    }
  });

  it('never more than one is held', async () => {
    const line = Buffer.from(`${JSON.stringify({ a: 'x'.repeat(1000) })}\n`);
    let given = 0;
    let taken = 0;
    async function* endless() {
      for (; given < 20_000; given++) {
        expect(given - taken).toBeLessThan(5);
        yield line;
      }
    }
    const lines = await openJsonLines(endless());
    for await (const piece of lines.rows([plain('a')])) taken += piece.length / 1001;
    expect(taken).toBe(20_000);
  });

  it('eight megabytes byte by byte take no gigabytes', async () => {
    const bytes = Buffer.from(`{"a":"${'x'.repeat(2_000_000)}"}`);
    async function* slowly() {
      for (let at = 0; at < bytes.length; at++) yield bytes.subarray(at, at + 1);
    }
    const before = process.memoryUsage().rss;
    const lines = await openJsonLines(slowly());
    expect(lines.names).toEqual(['a']);
    expect(process.memoryUsage().rss - before).toBeLessThan(300_000_000);
  });
});

describe('what is refused', () => {
  it.each([
    ['nothing', '', 'invalid_request', 'the body must contain at least one line'],
    ['blank lines', ' \n\r\n', 'invalid_request', 'the body must contain at least one line'],
    ['no keys', '{}', 'invalid_request', 'line 1: has no keys; the keys of the first line name the columns'],
    ['an array', '[1]', 'invalid_request', 'line 1: must be a JSON object of column names and values'],
    ['a big number', '12345678901234567890', 'invalid_request', 'line 1: must be a JSON object'],
    ['null', '{"a":1}\nnull', 'invalid_request', 'line 2: must be a JSON object of column names and values'],
    [
      'a blank line between',
      '{"a":1}\n\n{"a":1}',
      'invalid_request',
      'line 2: is blank, which is allowed only at the end of the body',
    ],
    [
      'another key',
      '{"a":1}\n{"a":1,"b":2}',
      'invalid_request',
      'line 2: has the key "b", which the first line does not have',
    ],
    [
      'a missing key',
      '{"a":1,"b":2}\n{"b":2}',
      'invalid_request',
      'line 2: lacks the key "a"; every line must have the keys of the first, with null',
    ],
    ['a prototype key', '{"a":1}\n{"__proto__":1}', 'invalid_request', 'line 2: has the key "__proto__"'],
    [
      'a NUL',
      '{"a":"x\\u0000"}',
      'invalid_request',
      'line 1: "a" contains a NUL character, which PostgreSQL does not support',
    ],
    ['broken JSON', '{"a":1}\n{"a":,}', 'invalid_json', 'line 2 is invalid: check its quotes, commas'],
    ['half a line', '{"a":1}\n{"a":', 'invalid_json', 'line 2'],
    ['a line break in a string', '{"a":"x\ny"}', 'invalid_json', 'line 1'],
    [
      'half a character',
      '{"a":1}\n{"a":"\\ud800"}',
      'invalid_json',
      'line 2 contains an unpaired surrogate.',
    ],
  ])('%s', async (_what, text, code, message) => {
    expect(await failure(text)).toEqual([400, code, expect.stringContaining(message)]);
    expect(await failure(text, { size: 1 })).toEqual([400, code, expect.stringContaining(message)]);
  });

  it('bytes that are no UTF-8, and what is nested too deep', async () => {
    expect(await failure(Buffer.from([123, 34, 255, 34, 58, 49, 125]))).toEqual([
      ...[400, 'invalid_json', expect.stringContaining('line 1 is not valid UTF-8')],
    ]);
    const deep = `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
    for (const kind of [{ isJson: true }, { isArray: true }]) {
      expect(await failure(deep, { kinds: { a: kind } })).toEqual([
        ...[400, 'invalid_request', 'line 1: is nested too deeply: at most 1000 levels are allowed'],
      ]);
    }
  });

  it('a column that the caller does not know', async () => {
    const lines = await openJsonLines(inPieces('{"a":1,"b":2}'));
    await expect(lines.rows([plain('a')]).next()).rejects.toMatchObject({ status: 400 });
  });

  it('names of every kind are only names', async () => {
    const text = '{"__proto__": 1, "constructor": 2, "toString": null, "": 4, "1": 5}';
    const lines = await openJsonLines(inPieces(text));
    expect(lines.names).toEqual(['1', '__proto__', 'constructor', 'toString', '']);
    expect(await convert(text)).toBe('5\t1\t2\t\\N\t4\n');
  });
});

describe('ordinary lines', () => {
  /** A generator with a fixed seed, so that a failure can be repeated. */
  const randomFrom = (seed: number) => {
    let state = seed;
    return (below: number) => {
      state = (state * 48_271) % 2_147_483_647;
      return state % below;
    };
  };
  const values = [
    ...[null, true, false, 0, -1, 12.5, 1e21, 1e-7, 123456789012345, 0.1, ''],
    ...[
      'x',
      'é😀',
      'tab\there',
      'line\nbreak',
      '\\',
      '\\N',
      '"quoted"',
      'a/b',
      '\b\f',
      '\u0001',
      'x'.repeat(300),
    ],
  ];
  const nested = [{}, [], { x: [1, 'a"b', null] }, ['\\', { y: 'é' }]];

  it('become the same rows as others', async () => {
    const random = randomFrom(42);
    const pick = <T>(list: readonly T[]) => list[random(list.length)] as T;
    const rows = Array.from({ length: 400 }, () => ({
      a: pick(values),
      b: pick(values),
      c: pick([...values, ...nested]),
    }));
    const kinds: Kinds = { c: { isJson: true } };
    const lines = (spaces: string) =>
      rows.map((row) => JSON.stringify(row).replace(/^\{"a":/, `{${spaces}"a":`)).join('\n');
    // With its columns in another order, no line is ordinary.
    const other = await openJsonLines(inPieces(lines('')));
    const turned: Buffer[] = [];
    for await (const piece of other.rows([plain('b'), { ...plain('c'), isJson: true }, plain('a')]))
      turned.push(piece);
    const expected = Buffer.concat(turned)
      .toString()
      .split('\n')
      .map((row) => {
        const [b, c, a] = row.split('\t');
        return a === undefined ? row : [a, b, c].join('\t');
      })
      .join('\n');
    for (const size of [7, 64, 1000, 1_000_000]) {
      expect(await convert(lines(''), { size, kinds })).toBe(expected);
      expect(await convert(lines('  '), { size, kinds })).toBe(expected);
    }
  });

  it('are checked for UTF-8 line by line', async () => {
    const good = Buffer.from('{"a": "é"}\n');
    const bad = Buffer.from([...Buffer.from('{"a": "'), 0xff, ...Buffer.from('"}\n')]);
    const cut = Buffer.from([...Buffer.from('{"a": "'), 0xc3, ...Buffer.from('\n"}\n')]);
    for (const size of [1, 5, 1000]) {
      expect(await failure(Buffer.concat([good, good, bad, good]), { size })).toEqual([
        ...[400, 'invalid_json', expect.stringContaining('line 3 is not valid UTF-8')],
      ]);
      expect((await failure(Buffer.concat([good, cut]), { size }))[2]).toContain('line 2 is not valid UTF-8');
    }
  });
});
