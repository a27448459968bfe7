import { describe, expect, it } from 'vitest';
import { parseJson, toJson, toText } from './json.ts';

describe('numbers that a double cannot hold', () => {
  const unsafe = [
    '9007199254740993',
    '-12345678901234567890',
    '0.1234567890123456789',
    '12345678901234567.5',
    '1e400',
    '-1e-400',
    '1.00000000000000000001',
    `1${'0'.repeat(100_000)}1`,
  ];

  it.each(unsafe.map((text) => [text.slice(0, 30), text]))('%s', (_, text) => {
    const answer = `{"ok":true,"rows":[{"n":1,"price":${text}}]}`;
    expect(() => parseJson(answer, 'number')).toThrow(
      expect.objectContaining({ code: 'unsafe_number', details: { column: 'price', value: text } }),
    );
    expect(parseJson(answer, 'string')).toEqual({ ok: true, rows: [{ n: 1, price: text }] });
    const big = /^-?\d+$/.test(text) ? BigInt(text) : text;
    expect(parseJson(answer, 'bigint')).toEqual({ ok: true, rows: [{ n: 1, price: big }] });
  });

  it.each([
    '9007199254740992',
    '-9007199254740991',
    '0.1',
    '12.50000000000000000000',
    '100000000000000000000000',
    '0.30000000000000004',
    '1.7976931348623157e+308',
    '5e-324',
    '2.2250738585072014e-308',
    '0.00000000000000000000',
    '0e999',
    // As PostgreSQL writes doubles for which JavaScript needs fewer digits.
    '1.9999999999999998e+23',
    '4.9406564584124654e-324',
  ])('are not: %s', (text) => {
    expect(parseJson(`[${text}]`, 'number')).toEqual([Number(text)]);
  });

  it('are found inside json, under any name, and not in strings', () => {
    const digits = '12345678901234567890';
    const text = `{"rows":[{"__proto__":{"deep":[${digits}]},"s":"${digits} \\\\\\" ${digits}","t\\"${digits}":1}]}`;
    const { rows } = parseJson(text, 'string') as { rows: object[] };
    expect(Object.entries(rows[0] ?? {})).toEqual([
      ['__proto__', { deep: [digits] }],
      ['s', `${digits} \\" ${digits}`],
      [`t"${digits}`, 1],
    ]);
    expect(({} as { deep?: unknown }).deep).toBeUndefined();
    expect(() => parseJson(text, 'number')).toThrow('"__proto__" is 12345678901234567890');
  });

  it('are found wherever JSON lets a number stand', () => {
    const digits = '12345678901234567890';
    for (const text of [
      digits,
      ` ${digits}`,
      `[${digits}]`,
      `[1,${digits}]`,
      `{"a":\n-${digits}}`,
      `{"a": ${digits}}`,
    ])
      expect(() => parseJson(text, 'number'), text).toThrow('would round');
    for (const text of [`"${digits}"`, `{"a": ",${digits}"}`, `["a: ${digits}", 1]`, `{",${digits}": 1}`])
      expect(parseJson(text, 'number'), text).toEqual(JSON.parse(text));
  });

  it('random ones are what they were, or refused', () => {
    for (let n = 0; n < 3_000; n++) {
      const digits = String(Math.random()).slice(2) + String(Math.random()).slice(2, 2 + (n % 9));
      const at = n % digits.length;
      const text = `${n % 2 ? '-' : ''}${digits.slice(0, at).replace(/^0+/, '') || '0'}.${digits.slice(at)}`;
      const isSame = (value: number) => {
        const [plain = '', exponent = '0'] = String(Math.abs(value)).split('e');
        const [whole = '', fraction = ''] = plain.split('.');
        const scale = Number(exponent) - fraction.length;
        const [givenWhole = '', givenFraction = ''] = text.replace('-', '').split('.');
        const shift = Math.max(0, givenFraction.length, -scale);
        return (
          BigInt(whole + fraction) * 10n ** BigInt(scale + shift) ===
          BigInt(givenWhole + givenFraction) * 10n ** BigInt(shift - givenFraction.length)
        );
      };
      let read: unknown;
      try {
        [read] = parseJson(`[${text}]`, 'number') as [unknown];
      } catch {
        expect(isSame(Number(text)), text).toBe(false);
        continue;
      }
      expect(isSame(read as number), text).toBe(true);
    }
  });

  it('in json that is nested deeper than the stack', () => {
    const depth = 100_000;
    const text = `${'['.repeat(depth)}12345678901234567890${']'.repeat(depth)}`;
    expect(() => parseJson(text, 'number')).toThrow('which a number would round');
  });
});

describe('values that are sent', () => {
  it('keep what they are', () => {
    const value = {
      big: [2n ** 70n, { deep: -1n }],
      date: new Date('2026-11-14T09:30:00Z'),
      bytes: new Uint8Array([0, 255, 16]),
      buffer: Buffer.from('a'),
      odd: [Number.NaN, Number.POSITIVE_INFINITY, -0, 0],
      left: undefined,
    };
    expect(toJson(value)).toBe(
      `{"big":[${2n ** 70n},{"deep":-1}],"date":"2026-11-14T09:30:00.000Z","bytes":"\\\\x00ff10","buffer":"\\\\x61","odd":["NaN","Infinity",-0,0]}`,
    );
  });

  it.each([
    ['undefined in a list', [undefined]],
    ['a function', { a: () => 1 }],
    ['an invalid date', new Date(Number.NaN)],
    ['a circle', circle()],
  ])('%s is refused', (_, value) => {
    expect(() => toJson(value)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
  });

  it('as text of a filter', () => {
    expect([1.5, 2n ** 64n, true, 'a', new Date(0), new Uint8Array([1]), { a: 1n }].map(toText)).toEqual([
      ...['1.5', '18446744073709551616', 'true', 'a', '1970-01-01T00:00:00.000Z', '\\x01', '{"a":1}'],
    ]);
    for (const value of [undefined, null])
      expect(() => toText(value)).toThrow(
        expect.objectContaining({ hint: expect.stringContaining('is(column, null)') }),
      );
  });
});

function circle(): object {
  const one: { self?: object } = {};
  one.self = one;
  return one;
}
