// Requests that a schema would write and requests that nobody should: made from the OpenAPI document, by a fixed seed.
import type { Random } from '../support/random.ts';

export type Schema = {
  type?: string;
  enum?: unknown[];
  const?: unknown;
  anyOf?: Schema[];
  properties?: Record<string, Schema>;
  patternProperties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  minimum?: number;
  maximum?: number;
  examples?: unknown[];
};

const nested = (depth: number, open: string, close: string) => open.repeat(depth) + close.repeat(depth);

/** As JSON text: some of it is no value that JavaScript could hold. By kind, so that none is rare. */
const hostileKinds: readonly (readonly string[])[] = [
  ['null', 'true', 'false', '0', '-0', '-1', '1.5', '1e3', '""', '[]', '{}', '[[]]', '[null]', '[{}]'],
  [
    '12345678901234567890',
    '-12345678901234567890',
    '1e400',
    '-1e400',
    '1e-400',
    '0.1e-16384',
    '9'.repeat(400),
  ],
  [`0.${'1'.repeat(400)}`, '1E+308', '2147483647', '2147483648', '9223372036854775808', '-32769', '1e16384'],
  ['[12345678901234567890]', '{"a":12345678901234567890}', '[1e400]', '[[12345678901234567890]]'],
  [
    ...[nested(65, '[', ']'), nested(2_000, '[', ']'), nested(40_000, '[', ']')],
    ...[`${'{"a":'.repeat(5_000)}1${'}'.repeat(5_000)}`, `${'[{"a":'.repeat(70)}1${'}]'.repeat(70)}`],
  ],
  [
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\u0000"',
    '"a\\u0000b"',
    '"\\uffff"',
    '"\\u202e"',
    '"é"',
    '"e\\u0301"',
  ],
  ['"İ"', '"😀"', '" "', '"\\t"', '"\\n"', '"\\r\\n"', '"\'"', '"\\\\"', '"%"', '"$1"', '"{"', '"\\""'],
  [`"${'x'.repeat(70_000)}"`, `"${'é'.repeat(5_000)}"`, `"${'a'.repeat(256)}"`, `[${'0,'.repeat(5_000)}0]`],
  ['{"__proto__":{"x":1}}', '{"__proto__":null}', '{"constructor":{"prototype":{"x":1}}}', '{"toString":1}'],
  [
    '{"toJSON":1}',
    '{"then":1}',
    '{"length":3}',
    '{"text":"1"}',
    '{"valueOf":null}',
    '{"":1}',
    '{"\\u0000":1}',
  ],
  ['{"a":1,"a":2}', '{"hasOwnProperty":1}', '["a","a"]', '"__proto__"', '"constructor"', '"toString"'],
  [
    '"NaN"',
    '"Infinity"',
    '"-infinity"',
    '"null"',
    '"1"',
    '"0x1F"',
    '"1_000"',
    '"\' or 1=1 --"',
    '"; drop table t"',
  ],
  ['"2026-02-30"', '"+294277-01-01T00:00:00Z"', '"0000-00-00T00:00:00Z"', '"infinity"', '"99999999999999"'],
  ['"../.."', '"%00"', '"a@b"', '"a@example.com"', '"<script>@x.io"', '"\\u200b@x.io"', '"rh_acct_x"'],
];
export const hostileValues = hostileKinds.flat();
const hostileValue = (random: Random) => random.pick(random.pick(hostileKinds));

/** What is no JSON at all. */
export const brokenBodies: readonly Buffer[] = [
  ...[
    '',
    ' ',
    '{',
    '[1',
    '{"a"',
    '"',
    'NaN',
    '{"a":NaN}',
    '{"a":1,}',
    "{'a':1}",
    '\ufeff{}',
    'undefined',
    '{}{}',
  ],
  ...['\0', '{"a":"\t"}', '01', '1.', '--1', 'tru', '[,]', '{"a" 1}', '/**/{}', '{"a":1}x'],
].map((text) => Buffer.from(text));
const notUtf8 = [Buffer.from([0x7b, 0xff, 0x7d]), Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])];

export type Words = {
  /** Good values for a property or a parameter of this name. */
  [name: string]: readonly unknown[];
};

/** JSON text that fits the schema, but for one part of it, or for many. */
export function writeBody(random: Random, schema: Schema, words: Words): Buffer {
  if (random.chance(0.04)) return random.pick([...brokenBodies, ...notUtf8]);
  const harm = random.chance(0.85) ? 0 : 0.25;
  const text = writeValue(random, schema, words, '', harm);
  return Buffer.from(harm === 0 && random.chance(0.45) ? spoilOne(random, text) : text);
}

/** Everything else is right, so that the one thing that is wrong comes as far as it can. */
function spoilOne(random: Random, text: string): string {
  const fields = [...text.matchAll(/"(\w+)":("(?:[^"\\]|\\.)*"|[\w.+-]+)/g)];
  const field = fields.length > 0 ? random.pick(fields) : null;
  if (!field) return hostileValue(random);
  const at = field.index + field[0].length - (field[2] as string).length;
  return text.slice(0, at) + hostileValue(random) + text.slice(field.index + field[0].length);
}

function writeValue(random: Random, schema: Schema, words: Words, name: string, harm: number): string {
  if (random.chance(harm)) return hostileValue(random);
  const known = words[name];
  if (name === 'email' && random.chance(0.6)) return `"n${random.below(1e9)}@example.com"`;
  if (name === 'data' && random.chance(0.5)) return '{"a":{"b":[1,"x",null]}}';
  if (known && random.chance(0.8)) return JSON.stringify(random.pick(known));
  if (schema.examples && random.chance(0.3)) return JSON.stringify(random.pick(schema.examples));
  if (schema.enum) return JSON.stringify(random.pick(schema.enum));
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.anyOf) return writeValue(random, random.pick(schema.anyOf), words, name, harm);
  switch (schema.type) {
    case 'string':
      return random.chance(0.5) ? JSON.stringify(`w${random.below(1_000)}`) : '"Some words"';
    case 'integer':
    case 'number':
      return String((schema.minimum ?? 0) + random.below(Math.min(50, (schema.maximum ?? 50) + 1)));
    case 'boolean':
      return String(random.chance(0.5));
    case 'array': {
      const items = Array.from({ length: random.below(4) + 1 }, () =>
        writeValue(random, schema.items ?? {}, words, name, harm / 2),
      );
      return `[${items.join(',')}]`;
    }
    case 'object':
      return writeObject(random, schema, words, harm);
    default:
      return hostileValue(random);
  }
}

/** All that is needed, and `name` as it is given. */
export function writeWith(random: Random, schema: Schema, words: Words, name: string, text: string): Buffer {
  const { properties = {}, required = [] } = schema;
  const fields = required
    .filter((other) => other !== name)
    .map(
      (other) => `${JSON.stringify(other)}:${writeValue(random, properties[other] ?? {}, words, other, 0)}`,
    );
  return Buffer.from(`{${[...fields, `${JSON.stringify(name)}:${text}`].join(',')}}`);
}

function writeObject(random: Random, schema: Schema, words: Words, harm: number): string {
  const fields: string[] = [];
  const { properties = {}, required = [], patternProperties } = schema;
  for (const [name, part] of Object.entries(properties)) {
    if (random.chance(required.includes(name) ? 0.02 : 0.6)) continue;
    fields.push(`${JSON.stringify(name)}:${writeValue(random, part, words, name, harm)}`);
    if (random.chance(0.02)) fields.push(fields.at(-1) as string);
  }
  if (patternProperties) {
    const names = words.columns ?? ['a'];
    if (harm === 0 && random.chance(0.5)) return `{"name":"w${random.below(1e9)}"}`;
    for (let n = random.below(4); n >= 0; n--)
      fields.push(`${JSON.stringify(random.pick(names))}:${writeValue(random, {}, words, 'value', 0.2)}`);
  }
  if (harm > 0 && random.chance(0.1))
    fields.push(`"${random.pick(['__proto__', 'constructor', 'x', '', 'ok'])}":1`);
  return `{${fields.join(',')}}`;
}

const hostileTexts = [
  ...[
    '',
    ' ',
    '0',
    '-1',
    '1e3',
    '1.5',
    '00',
    '99999999999999999999',
    '9007199254740993',
    'NaN',
    'null',
    'true',
  ],
  ...[
    'é',
    '😀',
    '\u0000',
    'a\u0000b',
    '\u202e',
    "'",
    '"',
    '\\',
    '%',
    '%%',
    ';',
    '--',
    '/*',
    '$1',
    '{',
    '(',
    ')',
    '.',
  ],
  ...[
    '__proto__',
    'constructor',
    'toString',
    'hasOwnProperty',
    '..',
    '../..',
    '*',
    '(select 1)',
    'x'.repeat(300),
  ],
  ...[
    'or',
    'and',
    'eq',
    'eq.',
    'eq.1',
    'in.(',
    'in.()',
    'in.(1,2)',
    'not.not.eq.1',
    'is.nothing',
    'like.*',
    'a,b,',
  ],
  ...[
    'id.desc,',
    'id.up',
    '*,*',
    'id::text',
    'id::nothing',
    'things(*)',
    'things(things(*))',
    'data->>a',
    'data->',
  ],
  ...[`${'('.repeat(3_000)}`, `or=(${'and('.repeat(500)}`, `${'a,'.repeat(2_000)}`, '2026-13-01T00:00:00Z'],
];

/** A query string or a segment of a path: escaped, or now and then as it is. */
export function writeText(random: Random, known: readonly unknown[] | undefined, harm: number): string {
  const text = known && !random.chance(harm) ? String(random.pick(known)) : random.pick(hostileTexts);
  if (random.chance(harm / 4))
    return random.pick(['%', '%zz', '%ff', '%00', '%ed%a0%80', '%2f', '+', '&', '=', '#']);
  return encodeURIComponent(text);
}
