// Random tables and inserts by which the bound of an insert is attacked (query/statement/insert-growth.ts): types with modifiers,
// arrays, domains, storage, compression, fill factors, defaults and indexes; values that are stored in far more bytes than
// their text has.
import type { Random } from '../support/random.ts';

type Value = (random: Random) => string;
type Kind = Readonly<{
  type: string;
  value: Value;
  /** Its size depends on its value. */
  isLong?: true;
  /** It can be in a B-tree. */
  isKey?: true;
}>;
type RandomTable = Readonly<{ statements: string[]; columns: readonly Kind[] }>;

/** Objects that the tables use. */
export const preparation = [
  "create type mood as enum ('a', 'b')",
  'create type pair as (a char(3000), b name)',
  'create domain padded as char(5000)',
  'create domain padded_again as padded',
  'create domain paddeds as char(4000)[]',
  'create domain number as numeric(900, 800)',
];

const digits = (random: Random, most: number) => {
  const count = 1 + random.below(most);
  return Array.from({ length: count }, () => 1 + random.below(9)).join('');
};
const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789äß漢🙂';
const symbols = [...letters];
const text = (random: Random, most: number) =>
  Array.from({ length: random.below(random.chance(0.2) ? most : 20) }, () => random.pick(symbols)).join('');
const one =
  (...of: string[]): Value =>
  (random) =>
    random.pick(of);

const keys = (kinds: Kind[]): Kind[] => kinds.map((kind) => ({ ...kind, isKey: true }));
const long = (kinds: Kind[]): Kind[] => kinds.map((kind) => ({ ...kind, isLong: true }));

const fixed = keys([
  { type: 'bool', value: one('t', 'f') },
  { type: '"char"', value: one('a') },
  { type: 'int2', value: one('1', '-32768') },
  { type: 'int4', value: (random) => String(random.below(2 ** 31)) },
  { type: 'int8', value: (random) => String(random.below(2 ** 50)) },
  { type: 'float4', value: one('1', '1e30') },
  { type: 'float8', value: one('1', '-1.5e-300') },
  { type: 'money', value: one('1') },
  { type: 'oid', value: one('1') },
  { type: 'name', value: (random) => `n${random.below(1000)}` },
  { type: 'uuid', value: (random) => `${digits(random, 1)}`.repeat(32) },
  { type: 'date', value: one('now', '2026-01-01') },
  { type: 'time(3)', value: one('01:02', 'now') },
  { type: 'timetz', value: one('now') },
  { type: 'timestamp(0)', value: one('now', 'infinity') },
  { type: 'timestamptz', value: one('now') },
  { type: 'interval day to second', value: one('1', '3 days') },
  { type: 'macaddr', value: one('080020abcdef') },
  { type: 'macaddr8', value: one('080020abcdef0102') },
  { type: 'pg_lsn', value: one('0/0') },
  { type: 'mood', value: one('a', 'b') },
]);
const unordered: Kind[] = [
  { type: 'point', value: one('1,1') },
  { type: 'box', value: one('1,1,2,2') },
  { type: 'lseg', value: one('1,1,2,2') },
  { type: 'line', value: one('{1,1,1}') },
  { type: 'circle', value: one('1,1,1') },
  { type: 'tid', value: one('(0,0)') },
  { type: 'xid8', value: one('1') },
];

const lengths = [1, 3, 30, 100, 1000, 5000, 100_000];
const padded = (random: Random): Kind => {
  const length = random.pick(lengths);
  return {
    type: `${random.pick(['character', 'char', 'bpchar'])}(${length})`,
    value: (again) => [...text(again, 100)].slice(0, again.below(length) + 1).join(''),
    isLong: true,
  };
};
const scaled = (random: Random): Kind => {
  const scale = random.pick([0, 2, 100, 999]);
  return { type: `numeric(1000, ${scale})`, value: one('1', '0', 'NaN', '0.5', '1e-50'), isLong: true };
};
const short = long([
  { type: 'text', value: (random) => text(random, 3000) },
  { type: 'varchar', value: (random) => text(random, 3000) },
  { type: 'varchar(2000)', value: (random) => [...text(random, 2000)].slice(0, 2000).join('') },
  { type: 'bpchar', value: (random) => text(random, 500) },
  {
    type: 'bytea',
    value: (random) => (random.chance(0.5) ? `\\x${'ab'.repeat(random.below(900))}` : digits(random, 900)),
  },
  {
    type: 'numeric',
    value: (random) =>
      random.pick([digits(random, 900), `1e-${random.below(16383)}`, `1e${random.below(1e5)}`, '0.1']),
  },
  { type: 'inet', value: one('::', '1.1.1.1', '::1/64') },
  { type: 'cidr', value: one('1', '::', '10') },
]);
const documents: Kind[] = [
  { type: 'json', isLong: true, value: (random) => JSON.stringify(text(random, 3000)) },
  {
    type: 'jsonb',
    isLong: true,
    value: (random) => {
      const count = 1 + random.below(600);
      return random.pick([
        `[${Array(count)
          .fill(random.pick(['1', '[]', '{}', '""', 'null', '1e9', '1e-99', '[1]']))
          .join(',')}]`,
        `{${Array.from({ length: count }, (_, n) => `"${n}":1`).join(',')}}`,
        `${'['.repeat(count)}${']'.repeat(count)}`,
        JSON.stringify(text(random, 3000)),
        digits(random, 500),
      ]);
    },
  },
];
/** No table with one of these may be trusted today. If one is, it has to be within its bound. */
const strange = long([
  { type: 'padded', value: one('a') },
  { type: 'padded_again', value: one('a') },
  { type: 'paddeds', value: one('{a,a,a,a}') },
  { type: 'padded[]', value: one('{a,a,a,a}') },
  { type: 'number[]', value: one('{1,1,1,1}') },
  { type: 'pair', value: one('(a,b)') },
  { type: 'pair[]', value: one('{"(a,b)","(a,b)"}') },
  { type: 'mood[]', value: one('{a,b}') },
  { type: 'bit(20000)[]', value: one(`{${'0'.repeat(20_000)}}`) },
  { type: 'bit(3)', value: one('101') },
  { type: 'varbit(100)', value: one('101') },
  { type: 'tsvector', value: one('a b c') },
  { type: 'tsquery', value: one('a&b') },
  { type: 'int4range', value: one('[1,2)', 'empty') },
  { type: 'nummultirange', value: one('{[1,2)}', '{}') },
  { type: 'path', value: one('1,1,2,2') },
  { type: 'polygon', value: one('1,1,2,2') },
  { type: 'jsonpath', value: one('$.a.b') },
  { type: 'xml', value: one('<a/>') },
  { type: 'jsonb[]', value: one('{1,1,1}') },
  { type: 'int2vector', value: one('1 1 1') },
]);

const plainOnly = ['tsquery', 'int2vector'];

const quoted = (value: string) =>
  /^[A-Za-z0-9.:/-]+$/.test(value) && value.toLowerCase() !== 'null'
    ? value
    : `"${value.replace(/["\\]/g, '\\$&')}"`;

function arrayOf(random: Random, element: Kind): Kind {
  const value: Value = (again) => {
    const count = again.chance(0.1) ? 0 : 1 + again.below(again.chance(0.3) ? 300 : 8);
    const same = again.chance(0.7) ? quoted(element.value(again)) : null;
    const items = Array.from({ length: count }, () => same ?? quoted(element.value(again)));
    // The box is the type whose arrays have another delimiter.
    const list = items.join(element.type === 'box' ? ';' : ',');
    const depth = count > 0 && again.chance(0.2) ? 5 : 0;
    return `${'{'.repeat(depth)}{${list}}${'}'.repeat(depth)}`;
  };
  return { type: `${element.type}[${random.chance(0.2) ? '3' : ''}]`, value, isLong: true };
}

function randomKind(random: Random): Kind {
  const chance = random.below(100);
  if (chance < 25) return random.pick(fixed);
  if (chance < 30) return random.pick(unordered);
  if (chance < 50) return random.pick(short);
  if (chance < 58) return random.pick(documents);
  if (chance < 66) return random.pick([padded, scaled])(random);
  if (chance < 68) return random.pick(strange);
  const element = random.pick([
    () => random.pick(fixed.slice(0, -1)),
    () => random.pick(unordered),
    () => random.pick(short),
    () => padded(random),
    () => padded(random),
    () => scaled(random),
    () => documents[0] as Kind,
  ])();
  return arrayOf(random, element);
}

const tailOf = (random: Random, column: Kind): string => {
  if (random.chance(0.85)) return '';
  if (column.type === 'uuid') return ' default gen_random_uuid()';
  if (column.type === 'int8') return ' generated by default as identity';
  if (column.type === 'timestamptz') return ' default now()';
  if (column.type === 'text' && random.chance(0.3)) return " generated always as ('x') stored";
  return column.isLong ? ` default '${column.value(random).replaceAll("'", "''")}'` : '';
};

export function randomTable(random: Random): RandomTable {
  const columns = Array.from({ length: 1 + random.below(random.chance(0.05) ? 60 : 6) }, () =>
    randomKind(random),
  );
  const list = columns.map((column, n) => `c${n} ${column.type}${tailOf(random, column)}`).join(', ');
  const options = [`fillfactor = ${random.pick([10, 50, 100])}`];
  if (random.chance(0.4)) options.push(`toast_tuple_target = ${random.pick([128, 2000, 8160])}`);
  const statements = [`create table t (${list}) with (${options.join(', ')})`];
  for (const [n, { isLong, type }] of columns.entries()) {
    if (!isLong) continue;
    const storage = random.pick(['external', 'external', 'extended', 'main', 'plain', null]);
    if (storage && !plainOnly.includes(type))
      statements.push(`alter table t alter c${n} set storage ${storage}`);
    if (random.chance(0.2) && !plainOnly.includes(type))
      statements.push(`alter table t alter c${n} set compression pglz`);
  }
  for (const [n, { isKey, isLong, type }] of columns.entries()) {
    if (random.chance(0.7)) continue;
    const fill = `with (fillfactor = ${random.pick([10, 70, 100])})`;
    if (isKey) statements.push(`create index on t (c${n}${random.chance(0.3) ? ' desc' : ''}) ${fill}`);
    else if (isLong && type === 'text')
      statements.push(`create index on t (pg_catalog.length(c${n})) ${fill}`);
    else if (isLong && random.chance(0.3))
      statements.push(`create index on t ((c${n} is null)) where c${n} is not null`);
  }
  return { statements, columns };
}

type RandomInsert = Readonly<{ text: string; params: (string | null)[] }>;

export function randomInsert(random: Random, { columns }: RandomTable): RandomInsert {
  const params: (string | null)[] = [];
  const item = (column: Kind) => {
    if (random.chance(0.1)) return 'default';
    const value = random.chance(0.1) ? null : column.value(random);
    if (random.chance(0.6)) {
      params.push(value);
      return `$${params.length}`;
    }
    return value === null ? 'null' : `'${value.replaceAll("'", "''")}'`;
  };
  const rows = Array.from({ length: random.chance(0.8) ? 1 : 2 + random.below(4) }, () => {
    return `(${columns.map(item).join(', ')})`;
  });
  return { text: `insert into t values ${rows.join(', ')}`, params };
}
