// The tables and statements of the benchmarks: Q1 one row, Q2 50 rows, Q3 10,000 rows, Q4 an insert.
const columns = 'id, name, price, in_stock, tags, created_at';

export const rows = 100_000;
/** The highest random id: enough rows follow it for Q2. */
export const lastId = 90_000;

export const statements = {
  Q1: `select ${columns} from items where id = $1`,
  Q2: `select ${columns} from items where id >= $1 order by id limit 50`,
  Q3: `select ${columns} from items order by id limit 10000`,
  Q4: "insert into sales (item, note) values ($1, 'bench')",
};

/** The number of rows in the answer. */
export const expected = { Q1: 1, Q2: 50, Q3: 10_000, page: 50 };

export const makeTables = [
  'create table items (id bigint primary key, name text, price numeric(10,2), in_stock boolean, tags jsonb, created_at timestamptz)',
  `insert into items select n, 'Item number ' || n, (n % 10000) / 100.0, n % 3 = 0, jsonb_build_object('color', 'red', 'sizes', jsonb_build_array(n % 7, n % 11)), timestamptz '2026-01-01' + n * interval '1 minute' from generate_series(1, ${rows}) as n`,
  'create table sales (id bigint generated always as identity primary key, item bigint, note text, at timestamptz default now())',
  'vacuum analyze items',
];

/** For SQLite, which lacks some of these types. */
export const makeSqliteTables = [
  'create table items (id integer primary key, name text, price numeric, in_stock boolean, tags text, created_at text)',
  `insert into items with recursive series(n) as (select 1 union all select n + 1 from series where n < ${rows}) select n, 'Item number ' || n, (n % 10000) / 100.0, n % 3 = 0, json_object('color', 'red', 'sizes', json_array(n % 7, n % 11)), strftime('%Y-%m-%dT%H:%M:%SZ', '2026-01-01', n || ' minutes') from series`,
  'create table sales (id integer primary key, item integer, note text, at text default current_timestamp)',
];
