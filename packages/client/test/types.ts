// What the types promise: compiled with the tests, never run.
import { type Client, createClient, type RowhouseError, safe } from '../src/index.ts';

type Database = {
  public: {
    Tables: {
      teas: {
        Row: { id: number; name: string; price: number | null; kind: 'green' | 'black'; made_at: string };
        Insert: {
          id?: never;
          name: string;
          price?: number | null;
          kind?: 'green' | 'black';
          made_at?: string;
        };
        Update: { name?: string; price?: number | null; kind?: 'green' | 'black'; made_at?: string };
        Embeds: {
          shops: Database['public']['Tables']['shops'] | null;
          reviews: Database['public']['Tables']['reviews'][];
        };
      };
      shops: {
        Row: { id: number; name: string };
        Insert: { name: string };
        Update: { name?: string };
        Embeds: { teas: Database['public']['Tables']['teas'][] };
      };
      reviews: {
        Row: { stars: number; text: string | null };
        Insert: { stars: number };
        Update: { stars?: number };
        Embeds: { teas: Database['public']['Tables']['teas'] };
      };
    };
    Views: { cheap: { Row: { name: string | null } } };
    Enums: { kind: 'green' | 'black' };
    Functions: { twice: { Args: { n: number }; Returns: number } };
  };
  shop: {
    Tables: { orders: { Row: { no: string }; Insert: { no: string }; Update: { no?: string } } };
    Views: Record<never, never>;
    Enums: Record<never, never>;
    Functions: Record<never, never>;
  };
};

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Same<A, B>) => {};
const options = { apiKey: 'rh_proj_x', project: 'shop' };

export async function typed() {
  const db = createClient<Database>(options);
  type Tea = Database['public']['Tables']['teas']['Row'];

  const page = await db.table('teas');
  same<typeof page.rows, Tea[]>(true);
  const some = await db.table('teas').select('id', 'name').eq('kind', 'green').gt('price', 3).limit(1);
  same<(typeof some.rows)[number], Pick<Tea, 'id' | 'name'>>(true);
  for await (const order of db.table('shop.orders')) same<typeof order, { no: string }>(true);
  const cheap = await db.table('cheap').first();
  same<typeof cheap, { name: string | null } | null>(true);
  const embedded = await db
    .table('teas')
    .select<{ name: string; shops: { name: string } }>('name,shops(name)')
    .first();
  same<NonNullable<typeof embedded>['shops'], { name: string }>(true);
  const joined = await db
    .table('teas')
    .select('id', 'shops(name)', 'reviews(stars,teas(name,shops(id)))')
    .first();
  same<
    typeof joined,
    {
      id: number;
      shops: { name: string } | null;
      reviews: { stars: number; teas: { name: string; shops: { id: number } | null } }[];
    } | null
  >(true);
  const text = await db
    .table('teas')
    .select('title:name, where:shops!inner(*), ...shops(city:name), price::text')
    .first();
  same<
    typeof text,
    { title: string; where: { id: number; name: string }; city: string; price: unknown } | null
  >(true);
  const inserted = await db.table('shops').select('teas(kind)').insert({ name: 'x' });
  same<typeof inserted, { teas: { kind: 'green' | 'black' }[] }>(true);
  // The types do not know this table: its rows are unknown.
  const odd = await db.table('teas').select('id', 'nowhere(name)').first();
  same<typeof odd, Record<string, unknown> | null>(true);
  await db
    .table('public.teas')
    .eq('id', 10n)
    .gte('made_at', new Date())
    .eq('name->>x' as 'name', 'y');

  const one = await db.table('teas').insert({ name: 'Assam' });
  same<typeof one, Tea>(true);
  const many = await db
    .table('teas')
    .select('id')
    .insert([{ name: 'Assam', price: null }]);
  same<typeof many, Pick<Tea, 'id'>[]>(true);
  const count = await db.table('teas').eq('id', 1).delete({ returning: 'minimal' });
  same<typeof count, number>(true);
  const maybe = await db.table('teas').upsert({ name: 'Assam' }, { resolution: 'ignore' });
  same<typeof maybe, Tea | null>(true);
  const changed = await db.table('teas').eq('id', 1).update({ price: 3 });
  same<typeof changed, Tea[]>(true);

  // @ts-expect-error: there is no such table
  db.table('teaz');
  // @ts-expect-error: nor in that schema
  db.table('shop.teas');
  // @ts-expect-error: nor such a column
  db.table('teas').eq('nme', 'x');
  // @ts-expect-error: nor does one have that type
  db.table('teas').eq('price', 'cheap');
  // @ts-expect-error: nor that value
  db.table('teas').eq('kind', 'blue');
  // @ts-expect-error: null is found with is()
  db.table('teas').eq('price', null);
  // @ts-expect-error: a name is missing
  db.table('teas').insert({ price: 1 });
  // @ts-expect-error: PostgreSQL makes the id
  db.table('teas').insert({ id: 1, name: 'x' });
  // @ts-expect-error: there is no such column to change
  db.table('teas').update({ nope: 1 });
  // @ts-expect-error: a view takes no rows
  db.table('cheap').insert({ name: 'x' });
  // @ts-expect-error: what was not selected is not there
  some.rows[0]?.price;
}

export async function untyped() {
  const db: Client = createClient(options);
  const { rows } = await db.table('anything').select('a').eq('b', 1);
  same<typeof rows, Pick<Record<string, unknown>, 'a'>[]>(true);
  const made = await db.table('anything').insert({ a: 1 });
  same<typeof made, Record<string, unknown>>(true);
  const own = await db.table<{ id: number; name: string }>('teas').eq('name', 'x').first();
  same<typeof own, { id: number; name: string } | null>(true);

  const result = await db.query<{ n: number }>('select 1 as n', [1, 2n, new Date(), null]);
  same<typeof result.rows, { n: number }[]>(true);
  const tagged = await db.sql<{ n: number }>`select ${1} as n`;
  same<typeof tagged.rows, { n: number }[]>(true);
  for await (const row of db.query.stream<{ n: number }>('select 1 as n'))
    same<typeof row, { n: number }>(true);
  // @ts-expect-error: sql is a tag, not a function of a text
  db.sql('select 1');
  // @ts-expect-error: a name is made by sql.id
  await db.batch([{ text: 'select 1' }]);
  // @ts-expect-error: there are three ways
  createClient({ ...options, numbers: 'decimal' });
  // @ts-expect-error: the project is missing
  createClient({ apiKey: 'x' });

  const { data, error } = await safe(db.query<{ n: number }>('select 1'));
  if (error) {
    same<typeof error, RowhouseError>(true);
    same<typeof data, null>(true);
  } else same<typeof data.rows, { n: number }[]>(true);
}
