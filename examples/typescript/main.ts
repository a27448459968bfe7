// Signs a user up and in, makes a table, writes and reads it, verifies the token, and handles an error.
import { createClient, RowhouseError } from '@rowhouse/client';
import { verifyToken } from './token.js';

const { ROWHOUSE_URL = 'http://127.0.0.1:8765', ROWHOUSE_API_KEY = '', ROWHOUSE_PROJECT = '' } = process.env;
const db = createClient({ url: ROWHOUSE_URL, apiKey: ROWHOUSE_API_KEY, project: ROWHOUSE_PROJECT });

type Tea = { id: number; name: string; price: number };

const email = `ada-${Date.now()}@example.com`;
const password = 'correct horse battery';
const { user } = await db.signUp({ email, password, data: { name: 'Ada' } });
console.log(`signed up ${user.email}`);

const { session } = await db.signIn({ email, password });
console.log(`signed in, until ${session.expires_at}`);

await db.query('drop table if exists teas_ts');
await db.query(
  'create table teas_ts (id int generated always as identity primary key, name text unique, price numeric(6,2))',
);
const teas = db.table<Tea>('teas_ts');
const made = await teas.insert([
  { name: 'Assam', price: 4.5 },
  { name: 'Mint', price: 2 },
  { name: 'Oolong', price: 12 },
]);
console.log(`inserted ${made.length} teas`);

const page = await teas.select('name').order('price').limit(2);
console.log(`first page: ${page.rows.map(({ name }) => name).join(', ')}`);
for await (const { name, price } of teas.order('price', 'desc')) console.log(`  ${name} ${price}`);

const cheap = await db.sql<Tea>`select name from teas_ts where price < ${10} order by name`;
console.log(`under 10: ${cheap.rows.map(({ name }) => name).join(', ')}`);

const claims = await verifyToken(session.access_token, ROWHOUSE_API_KEY, ROWHOUSE_PROJECT);
console.log(`the token is ${claims.email}'s: ${claims.sub === user.id}`);

try {
  await teas.insert({ name: 'Assam', price: 5 });
} catch (error) {
  if (!(error instanceof RowhouseError)) throw error;
  console.log(`refused: ${error.status} ${error.code}`);
}

await db.query('drop table teas_ts');
console.log('done');
