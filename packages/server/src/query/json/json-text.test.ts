import { describe, expect, it } from 'vitest';
import { ExactNumber, parseJsonText, toJsonText } from './json-text.ts';
import { toParameter } from './parameters.ts';

const big = '12345678901234567890.123456789';

describe('numbers', () => {
  it.each([
    ['9007199254740993'],
    ['-9007199254740993'],
    [big],
    ['0.1234567890123456789'],
    ['1e400'],
    ['-1.5E+400'],
    ['1e-400'],
    ['5e-324000'],
    ['123456789012345678e10'],
    ['0.30000000000000001'],
    ['1000000000000000000000000000001'],
  ])('%s keeps its digits', (number) => {
    const [value] = parseJsonText(`[${number}]`) as unknown[];
    expect(value).toBeInstanceOf(ExactNumber);
    expect(toJsonText([value])).toBe(`[${number}]`);
    expect(toParameter(value, undefined)).toBe(number);
  });

  it.each([
    ['0', 0],
    ['-0', -0],
    ['1.50', 1.5],
    ['9007199254740991', 9007199254740991],
    ['1234567890123456', 1234567890123456],
    ['0.1234567890123456', 0.1234567890123456],
    ['1.7976931348623157e+308', Number.MAX_VALUE],
    ['1e5', 1e5],
    ['1e100', 1e100],
    ['1E-007', 1e-7],
    ['0e999', 0],
    ['0.000000000000000000000', 0],
    ['1.0000000000000000000', 1],
    ['10000000000000000000', 1e19],
  ])('%s is a number as ever', (text, number) => {
    expect(parseJsonText(`[${text}]`)).toEqual([number]);
  });

  it.each(['-0', '-0.0', '0.30', '1.00', '1.50', '1e5', '1E-007', '-2.0e3', '0.0000001', '0e0', '10.0'])(
    '%s keeps its spelling for PostgreSQL',
    (number) => {
      for (const text of [`[${number}]`, `{"a":[ ${number} ,1]}`, `{"a":-1,"b": ${number}\n}`]) {
        expect(toJsonText(parseJsonText(text, 'spelling')).replaceAll(/\s/g, '')).toBe(
          text.replaceAll(/\s/g, ''),
        );
      }
      const [value] = parseJsonText(`[${number}]`, 'spelling') as unknown[];
      expect(value).toBeInstanceOf(ExactNumber);
      expect(toParameter(value, 1700)).toBe(number);
      expect(Number(toParameter(value, 23)) + 0).toBe(Number(number) + 0);
    },
  );

  it.each([
    ['1.0', '1'],
    ['1e3', '1000'],
    ['-0.0', '0'],
    ['1.50', '1.50'],
    ['9007199254740993.0', '9007199254740993.0'],
  ])('%s is %s for an integer', (number, whole) => {
    expect(new ExactNumber(number).whole).toBe(whole);
    for (const type of [20, 21, 23, 26, undefined])
      expect(toParameter(new ExactNumber(number), type)).toBe(whole);
    expect(toParameter([new ExactNumber(number)], 1007)).toBe(`{"${whole}"}`);
    expect(toParameter([new ExactNumber(number)], 1231)).toBe(`{"${number}"}`);
  });

  it('of any kind mean what they were, by ten thousand tries', () => {
    const digits = (most: number) =>
      Array.from({ length: 1 + Math.floor(Math.random() * most) }, () => Math.floor(Math.random() * 10)).join(
        '',
      );
    for (let round = 0; round < 100; round++) {
      const numbers = Array.from({ length: 100 }, () => {
        const whole = digits(20).replace(/^0+(?=\d)/, '');
        const fraction = Math.random() < 0.5 ? `.${digits(20)}` : '';
        const exponent = Math.random() < 0.3 ? `e${Math.random() < 0.5 ? '-' : ''}${digits(2)}` : '';
        return `${Math.random() < 0.5 ? '-' : ''}${whole}${fraction}${exponent}`;
      });
      const written = JSON.parse(
        toJsonText(parseJsonText(`[${numbers}]`)).replace(/-?\d[\d.]*(?:e[-+]?\d+)?/g, '"$&"'),
      ) as string[];
      for (const [index, number] of numbers.entries())
        expect(canonical(written[index] ?? '')).toBe(canonical(number));
    }
  });
});

/** Sign, significant digits and position of the point: equal for all spellings of a number. */
function canonical(number: string): string {
  const [, sign, whole = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/.exec(number) ?? [];
  const digits = (whole + fraction).replace(/^0+/, '');
  if (digits === '') return '0';
  const trimmed = digits.replace(/0+$/, '');
  return `${sign}${trimmed}e${Number(exponent) - fraction.length + digits.length - trimmed.length}`;
}

describe('around them', () => {
  it('nested, in strings, beside names of every kind', () => {
    const text = `{"a": [{"b": [${big}, "${big}", {"__proto__": ${big}}]}], "__proto__": ${big}, "${big}": 1, "q\\"": ${big}, "\\\\": "\\\\"}`;
    const value = parseJsonText(text) as Record<string, unknown>;
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(toJsonText(value)).toBe(
      `{"a":[{"b":[${big},"${big}",{"__proto__":${big}}]}],"__proto__":${big},"${big}":1,"q\\"":${big},"\\\\":"\\\\"}`,
    );
    expect(({} as { text?: string }).text).toBeUndefined();
  });

  it('text that only looks like the mark of one stays text', () => {
    const seen = JSON.stringify([new ExactNumber('1')]).slice(2, -3);
    const forged = seen.replace(/[0-9a-f]{24}/, '0'.repeat(24));
    const text = JSON.stringify([`${forged}${big}`, 'exact:', `"${big}"`]);
    expect(toJsonText(parseJsonText(text))).toBe(text);
    expect(toJsonText(parseJsonText(`["${forged}", ${big}]`))).toBe(`["${forged}",${big}]`);
  });

  it('a bare number is a number, what is no JSON is none, and so are half characters', () => {
    expect(parseJsonText(big)).toBe(Number(big));
    for (const text of ['', '01234567890123456789', `[${big}`, `{${big}: 1}`, `[${big}.]`, '[1e400e]'])
      expect(() => parseJsonText(text)).toThrow(SyntaxError);
    expect(() => parseJsonText(`["\\ud800", ${big}]`)).toThrow('surrogate');
  });

  it('deep, long and many take no long time', () => {
    const started = performance.now();
    const depth = 500_000;
    parseJsonText(`${'['.repeat(depth)}${big}${']'.repeat(depth)}`);
    parseJsonText(`[1${'0'.repeat(4_000_000)}1]`);
    parseJsonText(`[0.${'0'.repeat(4_000_000)}1]`);
    parseJsonText(`["${'\\"'.repeat(2_000_000)}", ${big}]`);
    parseJsonText(`[${`${big},`.repeat(100_000)}1]`);
    expect(performance.now() - started).toBeLessThan(10_000);
  });

  it('arrays as PostgreSQL writes them', () => {
    const value = parseJsonText(`[[${big}, null], ["a\\"b\\\\", {"n": ${big}}]]`);
    expect(toParameter(value, 1231)).toBe(`{{"${big}",NULL},{"a\\"b\\\\","{\\"n\\":${big}}"}}`);
  });
});
