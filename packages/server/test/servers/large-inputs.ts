// Large inputs of each type, and statements for what the grammar knows beside functions: for uninterruptible.ts.

/** `n`: the size of the inputs. */
export type Call = { what: string; sql: (n: number) => string };

/**
 * Expressions of a large value of a type. The kinds of one type meet each other: a needle and its haystack, an XPath and its
 * document.
 */
export const values: Record<string, ((n: number) => string)[]> = {
  text: [
    (n) => `repeat('a', ${n})`,
    (n) => `repeat('a', ${n >> 1}) || 'b'`,
    () => `'count(//*[count(//*)>0])'`,
    () => `'a'`,
    (n) => `(select string_agg(x::text, ' ') from generate_series(1, ${n >> 2}) x)`,
    (n) => `'%' || repeat('a%', ${n >> 1}) || 'b'`,
  ],
  bytea: [
    (n) => `decode(repeat('00', ${n}), 'hex')`,
    (n) => `decode(repeat('00', ${n >> 1}) || '01', 'hex')`,
    () => `'\\x0a'::bytea`,
  ],
  xml: [(n) => `('<a>' || repeat('<b/>', ${n >> 3}) || '</a>')::xml`],
  path: [
    (n) =>
      `(select ('[' || string_agg('(' || x || ',' || x % 7 || ')', ',') || ']')::path from generate_series(1, ${n}) x)`,
  ],
  polygon: [
    (n) =>
      `(select ('(' || string_agg('(' || cos(x * 6.28 / ${n}) || ',' || sin(x * 6.28 / ${n}) || ')', ',') || ')')::polygon from generate_series(1, ${n}) x)`,
    (n) =>
      `(select ('(' || string_agg('(' || 3 * cos(x * 6.28 / ${n}) || ',' || 3 * sin(x * 6.28 / ${n}) || ')', ',') || ')')::polygon from generate_series(1, ${n}) x)`,
  ],
  box: [() => `'((0,0),(1,1))'::box`],
  circle: [() => `'<(0,0),5>'::circle`],
  point: [() => `'(0.1,0.2)'::point`],
  lseg: [() => `'[(0,0),(1,1)]'::lseg`],
  line: [() => `'{1,2,3}'::line`],
  integer: [(n) => String(n), () => '2', () => '7'],
  bigint: [(n) => String(n), () => '2'],
  smallint: [() => '30000', () => '2'],
  numeric: [
    (n) => `(repeat('7', ${Math.min(n, 130_000)}))::numeric`,
    () => '2.5',
    (n) => `('0.' || repeat('7', ${Math.min(n, 16_000)}))::numeric`,
    (n) => `${n}::numeric`,
  ],
  'double precision': [() => '0.3::float8', () => '1e300::float8'],
  real: [() => '0.3::real'],
  boolean: [() => 'true'],
  name: [() => `'a'::name`],
  '"char"': [() => `'a'::"char"`],
  character: [(n) => `repeat('a', ${n})::bpchar`],
  bit: [(n) => `(repeat('01', ${n >> 1}))::bit(${n})`],
  'bit varying': [(n) => `(repeat('0', ${n}))::varbit`, (n) => `(repeat('0', ${n >> 1}) || '1')::varbit`],
  json: [
    (n) => `(select json_agg(x) from generate_series(1, ${n}) x)`,
    (n) => `(select json_object_agg(x, x) from generate_series(1, ${n}) x)`,
  ],
  jsonb: [
    (n) => `(select jsonb_agg(x) from generate_series(1, ${n}) x)`,
    (n) => `(select jsonb_object_agg(x, x) from generate_series(1, ${n}) x)`,
  ],
  jsonpath: [() => `'$.**'::jsonpath`, () => `'$[*] ? (exists ($ ? (@ > 1)))'::jsonpath`],
  tsvector: [
    (n) => `(select array_to_tsvector(array_agg(x::text)) from generate_series(1, ${Math.min(n, 60_000)}) x)`,
    (n) => `to_tsvector('simple', repeat('a b ', ${Math.min(n, 8_000)}))`,
  ],
  tsquery: [
    (n) => `(select string_agg('a' || x, '|')::tsquery from generate_series(1, ${Math.min(n, 30_000)}) x)`,
    (n) => `(repeat('a <-> ', ${Math.min(n >> 2, 6_000)}) || 'b')::tsquery`,
  ],
  regconfig: [() => `'simple'::regconfig`],
  regdictionary: [() => `'simple'::regdictionary`],
  date: [() => `'2024-01-01'::date`],
  time: [() => `'10:00'::time`],
  'timestamp without time zone': [() => `'2024-01-01'::timestamp`],
  'timestamp with time zone': [() => `'2024-01-01'::timestamptz`],
  interval: [() => `'1 day'::interval`],
  uuid: [() => `gen_random_uuid()`],
  oid: [() => '1259::oid'],
  regclass: [() => `'pg_class'::regclass`],
  inet: [() => `'10.0.0.1/8'::inet`],
  cidr: [() => `'10.0.0.0/8'::cidr`],
  money: [() => `'1'::money`],
  int4multirange: [
    (n) => `(select range_agg(int4range(2 * x, 2 * x + 1)) from generate_series(1, ${n}) x)`,
    (n) => `(select range_agg(int4range(4 * x + 1, 4 * x + 3)) from generate_series(1, ${n}) x)`,
  ],
  int4range: [(n) => `int4range(1, ${n})`],
  'integer[]': [
    (n) => `(select array_agg(x) from generate_series(1, ${n}) x)`,
    (n) => `(select array_agg(-x) from generate_series(1, ${n}) x)`,
  ],
  'text[]': [
    (n) => `(select array_agg(x::text) from generate_series(1, ${n}) x)`,
    (n) => `(select array_agg('-' || x) from generate_series(1, ${n}) x)`,
  ],
  'numeric[]': [(n) => `(select array_agg(x::numeric) from generate_series(1, ${n}) x)`],
  'double precision[]': [(n) => `(select array_agg(x::float8) from generate_series(1, ${n}) x)`],
  'real[]': [(n) => `(select array_agg(x::real) from generate_series(1, ${n}) x)`],
  oidvector: [(n) => `(select string_agg('1', ' ')::oidvector from generate_series(1, ${n}) x)`],
  int2vector: [(n) => `(select string_agg('1', ' ')::int2vector from generate_series(1, ${n}) x)`],
  hstore: [
    (n) => `(select hstore(array_agg(x::text), array_agg(x::text)) from generate_series(1, ${n}) x)`,
    (n) => `(select hstore(array_agg('-' || x), array_agg(x::text)) from generate_series(1, ${n}) x)`,
  ],
  ltree: [(n) => `(select string_agg('a', '.')::ltree from generate_series(1, ${Math.min(n, 60_000)}) x)`],
  lquery: [
    () => `'*.a.*.a.*.a.*.a.*.b'::lquery`,
    (n) => `(repeat('*.a.', ${Math.min(n >> 2, 10_000)}) || 'b')::lquery`,
  ],
  ltxtquery: [() => `'a & b'::ltxtquery`],
  'ltree[]': [(n) => `(select array_agg('a.b'::ltree) from generate_series(1, ${n}) x)`],
  'lquery[]': [(n) => `(select array_agg('*.b.c'::lquery) from generate_series(1, ${n}) x)`],
  cube: [() => `cube(array_fill(1.5::float8, array[100]))`],
  seg: [() => `'1 .. 2'::seg`],
  citext: [(n) => `repeat('a', ${n})::citext`, (n) => `(repeat('a', ${n >> 1}) || 'b')::citext`],
  query_int: [
    (n) => `(select string_agg(x::text, '|')::query_int from generate_series(1, ${Math.min(n, 30_000)}) x)`,
  ],
  vector: [(n) => `array_fill(1.5::real, array[${Math.min(n, 16_000)}])::vector`],
  halfvec: [(n) => `array_fill(1.5::real, array[${Math.min(n, 16_000)}])::halfvec`],
};
const aliases: Record<string, string> = {
  'character varying': 'text',
  cstring: '',
  internal: '',
  anyelement: 'integer',
  anycompatible: 'integer',
  anynonarray: 'integer',
  '"any"': 'text',
  anyarray: 'integer[]',
  anycompatiblearray: 'integer[]',
  anycompatiblenonarray: 'integer',
  anyrange: 'int4range',
  anycompatiblerange: 'int4range',
  anymultirange: 'int4multirange',
  anycompatiblemultirange: 'int4multirange',
  'bigint[]': 'integer[]',
  'character varying[]': 'text[]',
};

export const typeOf = (type: string) => aliases[type] ?? type;

const kind = (type: string, which: number, n: number) => `(${(values[type] ?? [])[which]?.(n)})`;

/** What no function of pg_proc stands for. */
export const forms: Call[] = [
  [
    'xmltable',
    (n: number) =>
      `select count(*) from xmltable('//*[count(//*)>0]' passing ${kind('xml', 0, n)} columns a text path '.')`,
  ],
  [
    'xmltable (column)',
    (n: number) =>
      `select count(*) from xmltable('/a' passing ${kind('xml', 0, n)} columns a text path 'count(//*[count(//*)>0])')`,
  ],
  [
    'xmlparse',
    (n: number) => `select xmlparse(document '<a>' || repeat('<b/>', ${n}) || '</a>') is document`,
  ],
  [
    'xmlparse (attributes)',
    (n: number) =>
      `select xmlparse(document '<a ' || (select string_agg('a' || x || '="1"', ' ') from generate_series(1, ${n}) x) || '/>') is document`,
  ],
  [
    'xmlparse (namespaces)',
    (n: number) =>
      `select xmlparse(document '<a ' || (select string_agg('xmlns:a' || x || '="u' || x || '"', ' ') from generate_series(1, ${n}) x) || '/>') is document`,
  ],
  [
    'xmlparse (entities)',
    (n: number) =>
      `select xmlparse(document '<!DOCTYPE a [<!ENTITY e "' || repeat('x', ${n}) || '">]><a>' || repeat('&e;', ${n >> 4}) || '</a>') is document`,
  ],
  [
    'xmlserialize indent',
    (n: number) => `select length(xmlserialize(document ${kind('xml', 0, n)} as text indent))`,
  ],
  [
    'xmlconcat',
    (n: number) => `select length(xmlagg(${kind('xml', 0, 500)})::text) from generate_series(1, ${n >> 8}) x`,
  ],
  ['is json unique', (n: number) => `select (${kind('json', 1, n)})::text is json with unique keys`],
  [
    'json_table',
    (n: number) => `select count(*) from json_table(${kind('jsonb', 0, n)}, '$[*]' columns (a int path '$'))`,
  ],
  [
    'jsonb path filter',
    (n: number) => `select jsonb_path_exists(${kind('jsonb', 0, n)}, '$[*] ? (exists($[*] ? (@ == -1)))')`,
  ],
  [
    'jsonb path root',
    (n: number) =>
      `select jsonb_path_exists(j, '$[*] ? (@ < 0 || exists($ ? (@ == -1)))') from (select ${kind('jsonb', 0, n)}) as v (j)`,
  ],
  [
    'jsonb path like_regex',
    (n: number) => `select jsonb_path_exists(to_jsonb(repeat('a', ${n})), '$ ? (@ like_regex "^(a+)+$x")')`,
  ],
  ['like', (n: number) => `select repeat('a', ${n}) like '%' || repeat('a%', ${n >> 2}) || 'b'`],
  ['like one', (n: number) => `select repeat('a', ${n}) like '%' || repeat('a', ${n >> 1}) || 'b%'`],
  ['ilike', (n: number) => `select repeat('a', ${n}) ilike '%' || repeat('a', ${n >> 1}) || 'b%'`],
  [
    'like bytea',
    (n: number) =>
      `select decode(repeat('61', ${n}), 'hex') like convert_to('%' || repeat('a', ${n >> 1}) || 'b%', 'UTF8')`,
  ],
  [
    'like nondeterministic',
    (n: number) => `select repeat('a', ${n}) collate "und-x-icu" like '%' || repeat('a', ${n >> 1}) || 'b%'`,
  ],
  ['similar to', (n: number) => `select repeat('a', ${n >> 4}) similar to '(a|aa)*b'`],
  ['regex', (n: number) => `select repeat('a', ${n >> 2}) || '!' ~ '^(a+)+$'`],
  ['regex back reference', (n: number) => `select repeat('a', ${n >> 2}) ~ '^(a*)(a*)(a*)\\1\\2\\3b$'`],
  ['regex compile', (n: number) => `select 'a' ~ repeat('(a?){200}', ${Math.min(n >> 8, 60)})`],
  [
    'regex long',
    (n: number) => `select 'a' ~ (select string_agg('a' || x, '|') from generate_series(1, ${n >> 2}) x)`,
  ],
  ['regexp_count', (n: number) => `select regexp_count(repeat('a', ${n}), 'a*?b')`],
  ['regexp_replace', (n: number) => `select length(regexp_replace(repeat('a', ${n}), 'a', 'bb', 'g'))`],
  [
    'array any',
    (n: number) =>
      `select count(*) from unnest(${kind('integer[]', 0, n)}) x where x = any (${kind('integer[]', 1, n)})`,
  ],
  ['array contains', (n: number) => `select ${kind('text[]', 0, n)} @> ${kind('text[]', 0, n)}`],
  ['array overlap', (n: number) => `select ${kind('integer[]', 0, n)} && ${kind('integer[]', 1, n)}`],
  [
    'array nested concat',
    (n: number) => `select array_length(array_agg(x), 1) from generate_series(1, ${n}) x`,
  ],
  [
    'in list',
    (n: number) =>
      `select count(*) from generate_series(1, 1) y where y in (${Array.from({ length: Math.min(n >> 6, 4_000) }, (_, at) => `y+${at + 2}`).join(',')})`,
  ],
  ['normalize', (n: number) => `select length(normalize(repeat('a' || chr(769), ${n}), nfc))`],
  [
    'normalize marks',
    (n: number) => `select length(normalize('a' || repeat(chr(769) || chr(790), ${n}), nfc))`,
  ],
  [
    'normalize kd',
    (n: number) => `select length(normalize('a' || repeat(chr(769) || chr(790), ${n}), nfkd))`,
  ],
  ['is normalized', (n: number) => `select ('a' || repeat(chr(769) || chr(790), ${n})) is nfkc normalized`],
  ['upper', (n: number) => `select length(upper(repeat('ß', ${n}) collate "pg_c_utf8"))`],
  [
    'final sigma',
    (n: number) => `select length(lower(repeat(chr(931) || chr(769), ${n}) collate "pg_unicode_fast"))`,
  ],
  [
    'final sigma marks',
    (n: number) => `select length(lower(repeat(chr(931) || ':', ${n}) collate "pg_unicode_fast"))`,
  ],
  ['initcap', (n: number) => `select length(initcap(repeat('a ', ${n})))`],
  // Twice as large: on a quiet machine, the size of the others ends before it has to be interrupted.
  [
    'position bytea',
    (n: number) => `select position(${kind('bytea', 1, 2 * n)} in ${kind('bytea', 0, 2 * n)})`,
  ],
  ['position text', (n: number) => `select position(${kind('text', 1, n)} in ${kind('text', 0, n)})`],
  [
    'position icu',
    (n: number) => `select position(${kind('text', 1, n)} in ${kind('text', 0, n)} collate "und-x-icu")`,
  ],
  ['replace', (n: number) => `select length(replace(${kind('text', 0, n)}, 'a', 'bb'))`],
  ['split_part', (n: number) => `select split_part(${kind('text', 4, n)}, ' ', -${n >> 3})`],
  [
    'string_to_array',
    (n: number) => `select cardinality(string_to_array(${kind('text', 0, n)}, ${kind('text', 1, n)}))`,
  ],
  [
    'translate',
    (n: number) =>
      `select length(translate(repeat('é', ${n}), (select string_agg(chr(1000 + x % 50000), '') from generate_series(1, ${n}) x), ''))`,
  ],
  [
    'trim',
    (n: number) =>
      `select length(btrim(repeat('é', ${n}), (select string_agg(chr(1000 + x % 50000), '') from generate_series(1, ${n}) x) || 'é'))`,
  ],
  [
    'trim bytea',
    (n: number) => `select length(btrim(${kind('bytea', 0, n)}, decode(repeat('ff', ${n}) || '00', 'hex')))`,
  ],
  [
    'numeric multiply',
    (n: number) =>
      `select length((repeat('7', ${Math.min(n, 130_000)})::numeric * repeat('7', ${Math.min(n, 130_000)})::numeric)::text)`,
  ],
  [
    'numeric divide',
    (n: number) =>
      `select length((repeat('7', ${Math.min(n, 130_000)})::numeric / repeat('7', ${Math.min(n >> 1, 65_000)})::numeric)::text)`,
  ],
  ['numeric power', (n: number) => `select length((1.7::numeric ^ ${Math.min(n, 100_000)}.5)::text)`],
  [
    'numeric power long',
    (n: number) =>
      `select length((('1.' || repeat('7', ${Math.min(n, 16_000)}))::numeric ^ ('1.' || repeat('7', ${Math.min(n, 16_000)}))::numeric)::text)`,
  ],
  ['to_char', (n: number) => `select length(to_char(1.5::numeric, repeat('9', ${n})))`],
  ['to_date', (n: number) => `select to_date(repeat('a', ${n}), repeat('"a"', ${n >> 2}))`],
  ['to_timestamp', (n: number) => `select to_timestamp(repeat('1 ', ${n}), repeat('YYYY ', ${n >> 2}))`],
  ['format', (n: number) => `select length(format(repeat('%1$s', ${n}), 'a'))`],
  [
    'ts_headline',
    (n: number) => `select length(ts_headline('simple', repeat('a b c ', ${n >> 2}), 'a & b & c'::tsquery))`,
  ],
  [
    'ts_headline fragments',
    (n: number) =>
      `select length(ts_headline('simple', repeat('a b c ', ${n >> 2}), 'a & c'::tsquery, 'MaxFragments=1000, MaxWords=1000, MinWords=1'))`,
  ],
  [
    'ts_headline phrase',
    (n: number) =>
      `select length(ts_headline('simple', repeat('a ', ${n >> 2}), 'a <-> a <-> a <-> b'::tsquery))`,
  ],
  [
    'ts_rank_cd',
    (n: number) =>
      `select ts_rank_cd(to_tsvector('simple', repeat('a b ', ${Math.min(n, 8_000)})), (${kind('tsquery', 0, n)}))`,
  ],
  [
    'ts_rank',
    (n: number) =>
      `select ts_rank(${kind('tsvector', 0, n)}, (select string_agg(x::text, '&')::tsquery from generate_series(1, ${Math.min(n, 30_000)}) x))`,
  ],
  [
    'ts_rewrite',
    (n: number) =>
      `select numnode(ts_rewrite((select string_agg('a' || x, '&')::tsquery from generate_series(1, ${Math.min(n, 10_000)}) x), 'a1 & a2'::tsquery, 'b'::tsquery))`,
  ],
  [
    'tsquery match',
    (n: number) =>
      `select to_tsvector('simple', repeat('a ', ${Math.min(n, 16_000)})) @@ (repeat('a <-> ', ${Math.min(n >> 4, 200)}) || 'b')::tsquery`,
  ],
  [
    'tsvector parse',
    (n: number) => `select length(to_tsvector('english', repeat('a/b/c.d@e.f-g-h-', ${n >> 4})))`,
  ],
  ['tsvector parse tags', (n: number) => `select length(to_tsvector('english', repeat('<a ', ${n >> 2})))`],
  ['tsvector parse hyphens', (n: number) => `select length(to_tsvector('english', repeat('a-', ${n >> 2})))`],
  ['tsvector parse urls', (n: number) => `select length(to_tsvector('english', repeat('a.b/', ${n >> 2})))`],
  ['tsvector parse numbers', (n: number) => `select length(to_tsvector('english', repeat('1.', ${n >> 2})))`],
  ['websearch', (n: number) => `select numnode(websearch_to_tsquery('simple', repeat('a -b ', ${n >> 4})))`],
  ['range merge', (n: number) => `select ${kind('int4multirange', 0, n)} * ${kind('int4multirange', 1, n)}`],
  ['path to polygon', (n: number) => `select area(${kind('path', 0, n)})`],
  ['interval', (n: number) => `select (repeat('1 ', ${n}))::interval`],
  ['row compare', (n: number) => `select row(${kind('integer[]', 0, n)}) < row(${kind('integer[]', 0, n)})`],
  ['width_bucket', (n: number) => `select width_bucket(${n}, ${kind('integer[]', 0, n)})`],
  ['merge json', (n: number) => `select length((${kind('jsonb', 1, n)} - ${kind('text[]', 0, n)})::text)`],
  ['jsonb contains', (n: number) => `select ${kind('jsonb', 0, n)} @> ${kind('jsonb', 0, n)}`],
  [
    'jsonb contains nested',
    (n: number) =>
      `select (select jsonb_agg(jsonb_build_array(x)) from generate_series(1, ${n}) x) @> (select jsonb_agg(jsonb_build_array(-x)) from generate_series(1, ${n}) x)`,
  ],
  ['jsonb any', (n: number) => `select ${kind('jsonb', 1, n)} ?& ${kind('text[]', 0, n)}`],
  [
    'jsonb strings',
    (n: number) =>
      `select (select jsonb_agg(x::text) from generate_series(1, ${n}) x) ?| ${kind('text[]', 1, n)}`,
  ],
].map(([what, sql]) => ({ what: what as string, sql: sql as (n: number) => string }));
