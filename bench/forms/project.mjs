// The tables, policies and users of the suite `forms`. Each row of `notes` belongs to a user, each row of `team_notes` to a team
// with several members.
import pg from 'pg';
import { lastId, makeTables } from '../items.mjs';
import { superuserUrl } from '../load.mjs';

const teams = 10;
/** Each user is in so many teams. */
const teamsOfUser = 3;
/** Sign-ups take a password hash each. */
const atOnce = 4;

export async function makeProject(ours, count) {
  for (const statement of makeTables) await ours.query(statement);
  const users = await signUp(ours, count);
  const ids = `(array['${users.map(({ id }) => id).join("', '")}']::uuid[])`;
  const statements = [
    'create table stock (like items including all)',
    'insert into stock select * from items',
    // Read by the project itself, to which policies do not apply.
    'create table guarded (like items including all)',
    'insert into guarded select * from items',
    'alter table guarded enable row level security',
    'create policy all_rows on guarded for select to authenticated using (true)',
    'create table notes (like items including all, user_id uuid not null default auth.uid() references auth.users on delete cascade)',
    `insert into notes select items.*, ${ids}[id % ${count} + 1] from items`,
    'create index on notes (user_id)',
    'alter table notes enable row level security',
    'create policy own_rows on notes to authenticated using (user_id = (select auth.uid()))',
    'create table memberships (user_id uuid not null references auth.users on delete cascade, team_id int not null, primary key (user_id, team_id))',
    `insert into memberships select ${ids}[n + 1], (n + m) % ${teams} from generate_series(0, ${count - 1}) as n, generate_series(0, ${teamsOfUser - 1}) as m`,
    'alter table memberships enable row level security',
    'create policy own_rows on memberships to authenticated using (user_id = (select auth.uid()))',
    'create table team_notes (like items including all, team_id int not null)',
    `insert into team_notes select items.*, id % ${teams} from items`,
    'create index on team_notes (team_id)',
    'alter table team_notes enable row level security',
    'create policy rows_of_teams on team_notes to authenticated using (team_id in (select team_id from memberships where user_id = (select auth.uid())))',
    'create table diary (id bigint generated always as identity primary key, user_id uuid not null default auth.uid() references auth.users on delete cascade, title text not null, at timestamptz default now())',
    'create index on diary (user_id)',
    'alter table diary enable row level security',
    'create policy own_rows on diary to authenticated using (user_id = (select auth.uid()))',
    // For the obvious program.
    'create table requests (key text primary key, answer jsonb, at timestamptz not null default now())',
    'vacuum analyze',
  ];
  for (const statement of statements) await ours.query(statement);
  const { api_key: publishable } = await ours.call('POST', '/keys', { name: 'browser', kind: 'publishable' });
  return { tokens: users.map(({ token }) => token), publishable };
}

/**
 * The URL of a login for the obvious program. The project's own login may not take the role of users; this one has all rights of the
 * project and may take it.
 */
export async function makeLogin({ data, databaseUrl }) {
  const url = new URL(databaseUrl);
  const [owner, name, password] = [url.username, 'obvious', 'obvious'];
  const admin = new pg.Client({ connectionString: await superuserUrl(data, url.pathname.slice(1)) });
  await admin.connect();
  try {
    await admin.query(`create role ${name} login password '${password}'`);
    await admin.query(`grant "${owner}" to ${name} with inherit true`);
    await admin.query(`grant authenticated to ${name} with inherit false, set true`);
  } finally {
    await admin.end();
  }
  Object.assign(url, { username: name, password });
  return url.href;
}

async function signUp(ours, count) {
  const users = [];
  const numbers = Array.from({ length: count }, (_, n) => n).values();
  const workers = Array.from({ length: atOnce }, async () => {
    for (const n of numbers) {
      const body = { email: `user${n}@example.com`, password: 'correct horse battery' };
      const { user, session } = await ours.call('POST', '/auth/signup', body);
      users[n] = { id: user.id, token: session.access_token };
    }
  });
  await Promise.all(workers);
  return users;
}

/** The distance between two rows that a user sees. The first one has the user's own number, modulo this distance. */
const stepOf = { any: () => 1, own: (count) => count, team: () => teams };

/** A random id of a row that the user with this number sees. */
export function randomId(whose, user, count) {
  const step = stepOf[whose](count);
  return (user % step) + step * (1 + Math.floor(Math.random() * (Math.floor(lastId / step) - 1)));
}

/** The same in Lua. */
export function randomIdInLua(whose, count) {
  const step = stepOf[whose](count);
  return `(user % ${step}) + ${step} * math.random(1, ${Math.floor(lastId / step) - 1})`;
}
