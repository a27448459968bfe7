import { describe, expect, it } from 'vitest';
import { toArrayText } from './array-text.ts';
import { type Exactness, parseJsonText, toJsonText } from './json-text.ts';
import { LargeSyntaxError, parseLargeJson } from './large-json.ts';
import { addJson, TextPieces } from './large-text.ts';
import { toLargeParameter } from './parameters.ts';
import { entriesOf, namesOf, WideObject, wideNames } from './wide-object.ts';

const parse = (text: string, exact: Exactness | null = 'value') =>
  parseLargeJson(Buffer.from(text), { exact });
const long = 'x'.repeat(70_000);

const texts: [string, string][] = [
  ['small', '{"a":[1,2,{"b":null}],"c":"d"}'],
  ['bare', ' 12 '],
  ['a bare string', `"${long}"`],
  ['empty containers', '[[],{},[ ],{ }]'],
  ['many numbers', `[${Array.from({ length: 50_000 }, (_, n) => n).join(' , ')}]`],
  ['many rows', JSON.stringify(Array.from({ length: 20_000 }, (_, n) => ({ id: n, t: `ü"\\${n}` })))],
  ['many keys', JSON.stringify(Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`k${n}`, [n]])))],
  [
    'keys that are numbers',
    `{"b":1,${Array.from({ length: 20_000 }, (_, n) => `"${(n * 40_007) % 5_000_000_000}":${n}`)},"01":1,"-1":2,"7":3,"a":[]}`,
  ],
  [
    'keys that repeat in another slice',
    `{${[0, 1].flatMap((turn) => Array.from({ length: 9_000 }, (_, n) => `"k${n}":${turn}`))}}`,
  ],
  ['exact numbers', `[${'12345678901234567890,'.repeat(9_000)}1.10]`],
  ['long strings', JSON.stringify([long, { [long]: long, b: [`${long}ü"\\\n🙂`.repeat(3)] }, 1])],
  ['escapes', `["${'\\ud83d\\ude00\\n\\\\\\"ü🙂'.repeat(20_000)}"]`],
  ['escapes at odd places', `["x${'\\ud83d\\ude00'.repeat(20_000)}","xy${'🙂'.repeat(40_000)}"]`],
  [
    'large in large',
    `{"a":{"b":[[${'[1,2],'.repeat(30_000)}3],{"c":"${long}"}]},"d":${`[${'"e",'.repeat(40_000)}"f"]`}}`,
  ],
  ['space', `[1,${' \n\t'.repeat(50_000)}2${' '.repeat(100_000)}]${' '.repeat(100_000)}`],
  ['repeated and odd keys', `{"a":1,"__proto__":{"x":1},"b":"${long}","a":2,"__proto__":"${long}"}`],
  ['a long number', `[${'9'.repeat(140_000)},1]`],
];

const broken: [string, string][] = [
  ['a comma too many', `[${'1,'.repeat(40_000)}]`],
  ['a comma before', `[,${'1,'.repeat(40_000)}1]`],
  ['two commas', `[${'1,'.repeat(40_000)},1]`],
  ['no end', `[${'1,'.repeat(40_000)}1`],
  ['the wrong end', `[${'1,'.repeat(40_000)}1}`],
  ['the wrong end inside', `[${'1,'.repeat(40_000)}{"a":1]]`],
  ['something behind', `[${'1,'.repeat(40_000)}1] 2`],
  ['no colon', `{"a" ["${long}"]}`],
  ['no key', `{["${long}"]}`],
  ['no comma', `["${long}" "${long}"]`],
  ['an open string', `["${long}${long}`],
  ['a raw line break', `["${long}\n${long}"]`],
  ['a bad escape', `["${long}\\x${long}"]`],
  ['a cut escape', `["${long}\\u12"]`],
  ['a bad word', `["${long}",nul]`],
  ['nothing', ''],
  ['blank', ' '.repeat(100_000)],
];

describe('large JSON', () => {
  it.each(texts)('is read and written as by JSON.parse and JSON.stringify: %s', async (_what, text) => {
    const expected = parseJsonText(text);
    const value = await parse(text);
    if (!(value instanceof WideObject)) expect(same(value, expected)).toBe(true);
    expect(toJsonText(value) === toJsonText(expected)).toBe(true);
    const out = new TextPieces();
    await addJson(out, value);
    const written = Buffer.concat(out.end().pieces).toString();
    // A wide object keeps the order of its names, and JavaScript puts numbers first.
    if (value instanceof WideObject) expect(same(parseJsonText(written), expected)).toBe(true);
    else expect(written === toJsonText(expected)).toBe(true);
    if (!Array.isArray(value)) return;
    const array = (await toLargeParameter(value, 1009)) as { pieces?: Buffer[] } | string;
    const arrayText = typeof array === 'string' ? array : Buffer.concat(array?.pieces ?? []).toString();
    expect(arrayText === toArrayText(expected as unknown[])).toBe(true);
  });

  it('makes wide objects of very many names alone, which keep their order and the last of repeated values', async () => {
    const names = ['b', '__proto__', ...Array.from({ length: wideNames - 1 }, (_, n) => `k${n}`)];
    const textOf = (some: string[]) =>
      `{${some.map((name) => `${JSON.stringify(name)}:"${long.slice(0, 60)}"`)}}`;
    expect(await parse(textOf(names.slice(1)))).not.toBeInstanceOf(WideObject);
    const wide = await parse(textOf([...names, 'b']).replace(/"[^"]*"}$/, 'null}'));
    expect(wide).toBeInstanceOf(WideObject);
    expect(namesOf(wide as object)).toEqual(names);
    expect([...entriesOf(wide as object)][0]).toEqual(['b', null]);
  });

  it.each(broken)('is refused as by JSON.parse: %s', async (_what, text) => {
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
    await expect(parse(text)).rejects.toThrow(LargeSyntaxError);
  });

  it('says where', async () => {
    await expect(parse(`["ü${long}" 1]`)).rejects.toMatchObject({ offset: 70_006 });
  });

  it('never deeper than can be handled, at any place', async () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
    expect(await parse(`["${long}",${nested(999)}]`)).toHaveLength(2);
    for (const text of [
      nested(2_000_000),
      `["${long}",${nested(1000)}]`,
      `[${`["${long}",`.repeat(1_000)}1${']'.repeat(1_001)}`,
      '{"a":'.repeat(500_000),
    ])
      await expect(parse(text)).rejects.toThrow(/nested too deeply/);
  });

  it('refuses halves of characters, bytes that are no UTF-8, and too many keys', async () => {
    await expect(parse(`["${long}\\ud83d"]`)).rejects.toThrow(/surrogate/);
    await expect(parse(`["${long}\\ud83d${long}"]`)).rejects.toThrow(/surrogate/);
    const bytes = Buffer.from(`["${long}?${long}"]`);
    bytes[70_002] = 0xff;
    await expect(parseLargeJson(bytes, { exact: 'value' })).rejects.toThrow(/UTF-8/);
    const keys = `{${Array.from({ length: 100_001 }, (_, n) => `"k${n}":1`).join(',')}}`;
    await expect(parse(keys)).rejects.toThrow(/100000 keys/);
  });

  it('of any random form', async () => {
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed % below;
    };
    const make = (depth: number): unknown => {
      const kind = random(depth > 4 ? 5 : 7);
      if (kind === 0) return random(1_000_000);
      if (kind === 1) return [null, true, false][random(3)];
      if (kind < 5) return 'aü"\\\n🙂\u0001'.repeat(random(random(20) === 0 ? 20_000 : 20));
      const size = random(12);
      if (kind === 5) return Array.from({ length: size }, () => make(depth + 1));
      return Object.fromEntries(Array.from({ length: size }, (_, n) => [`k${n}"ü`, make(depth + 1)]));
    };
    for (let n = 0; n < 60; n++) {
      const text = JSON.stringify([make(0), make(0), make(0)], null, random(3));
      expect(same(await parse(text), JSON.parse(text)), `form ${n}`).toBe(true);
      const cut = text.slice(0, random(text.length));
      await expect(parse(cut), `cut ${n}`).rejects.toThrow();
    }
  });
});

/** A failing toEqual would print megabytes of difference. */
function same(one: unknown, other: unknown): boolean {
  try {
    expect(one).toEqual(other);
    return true;
  } catch {
    return false;
  }
}
