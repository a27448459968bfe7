// Users, rows and queries with Rowhouse. See README.md.
import { createClient, RowhouseError } from '@rowhouse/client';
import { verifyToken } from './token.js';

type Tea = { id: bigint; user_id: string; name: string; price: string; barcode: bigint | null };

const more = [
  { name: 'Genmaicha 玄米茶', price: '12.00' },
  { name: 'Earl Grey, "the Queen\'s"', price: '9.99' },
  { name: 'Mate', price: '3.80' },
  { name: 'Oolong', price: '21.50' },
];

async function main(): Promise<void> {
  const [url = '', apiKey = '', project = ''] = settings(
    'ROWHOUSE_URL',
    'ROWHOUSE_API_KEY',
    'ROWHOUSE_PROJECT',
  );
  // All digits are kept: bigint columns come as BigInt, numeric ones as strings.
  const db = createClient({ url, apiKey, project, numbers: 'bigint' });

  const email = `ada+typescript-${crypto.randomUUID().slice(0, 12)}@example.com`;
  const password = crypto.randomUUID();
  const { user } = await db.signUp({ email, password, data: { name: 'Ada' } });
  console.log(`signed up: ${user.email}`);

  const { session } = await db.signIn({ email, password });
  const claims = await verifyToken(session.access_token, apiKey, project);
  const until = new Date(claims.exp * 1000).toISOString().slice(0, 16).replace('T', ' ');
  console.log(`signed in: ${claims.role}, until ${until} UTC`);

  await db.query(`create table if not exists example_teas (
    id bigint generated always as identity primary key,
    user_id uuid not null references auth.users on delete cascade,
    name text not null,
    price numeric(10, 2) not null,
    barcode bigint)`);
  const teas = db.table<Tea>('example_teas');
  // More than 2^53, where a double would lose the last digit.
  const tea = await teas.insert({
    user_id: claims.sub,
    name: 'Assam',
    price: '4.50',
    barcode: 2n ** 53n + 1n,
  });
  console.log(`inserted: ${tea.name} at ${tea.price}, barcode ${tea.barcode}`);
  const rows = await teas.insert(more.map((each) => ({ user_id: claims.sub, ...each })));
  console.log(`inserted: ${rows.length} more`);

  const mine = teas.eq('user_id', claims.sub).limit(2);
  for (let page = await mine, number = 1; ; number++) {
    console.log(`page ${number}: ${page.rows.map(({ name }) => name).join(' | ')}`);
    if (page.next_cursor === null) break;
    page = await mine.cursor(page.next_cursor);
  }

  const cheap = await db.sql<Tea>`
    select name, price from example_teas where user_id = ${claims.sub} and price < ${10} order by price`;
  console.log(`under 10: ${cheap.rows.map(({ name, price }) => `${name} ${price}`).join(' | ')}`);

  try {
    await db.table('example_tea');
  } catch (error) {
    if (!(error instanceof RowhouseError) || error.code !== 'table_not_found') throw error;
    console.log(`refused: ${error.status} ${error.code}: ${error.message} ${error.hint}`);
  }
  console.log('done');
}

function settings(...names: string[]): string[] {
  const missing = names.filter((name) => !process.env[name]);
  if (missing.length > 0) throw new Error(`Please set ${missing.join(', ')}: see README.md.`);
  return names.map((name) => process.env[name] as string);
}

main().catch((error) => {
  const isAway = error instanceof RowhouseError && error.code === 'network_error';
  const reason = isAway ? 'no answer from the service' : error instanceof RowhouseError ? error.code : null;
  console.error(reason ? `${reason}: ${error.message}` : error.message);
  process.exitCode = 1;
});
