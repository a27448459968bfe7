// The users of a dump, of Rowhouse or of Supabase, with their password hashes. Every value is checked as if it came by the
// API: a hash with too many rounds would hold up the sign-ins of all projects. They are stored by the role
// that owns users, by statements of ours, before anything of the dump has run.

import { uuid } from '../../access/end-users/access-tokens.ts';
import { readData, roleForm } from '../../access/end-users/data.ts';
import { readEmail } from '../../access/mail/emails.ts';
import { isKnownHash } from '../../access/passwords/passwords.ts';
import { RowhouseError } from '../../errors/errors.ts';
import { parseJsonText } from '../../query/json/json-text.ts';
import { BrokenDump } from '../read/broken-dump.ts';
import type { CopyRow } from './copy-text.ts';
import type { ImportSession } from './import-session.ts';
import type { Reporting } from './report.ts';

/** The rows of a table of schema auth. A row is null if it has an expression, which only PostgreSQL could compute. */
export type AuthRows = Readonly<{
  table: string;
  columns: readonly string[];
  rows: () => AsyncIterable<CopyRow | null>;
}>;

type Kind = 'rowhouse' | 'supabase';

const batchRows = 500;
const timeForm = /^\d{4,6}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?[+-]\d\d(:\d\d){0,2}$/;

/** The tables of schema auth whose rows are taken over. */
export function isOfUsers(table: string): boolean {
  return table === 'users' || table === 'passwords' || table === 'settings';
}

/** Users first: their passwords refer to them. */
export async function importUsers(
  session: ImportSession,
  tables: readonly AuthRows[],
  report: Reporting,
): Promise<void> {
  const of = (name: string) => tables.filter(({ table }) => table === name);
  let kind: Kind | null = null;
  for (const users of of('users')) {
    const found = kindOf(users.columns);
    if (found) await storeUsers(session, users, found, report);
    else if (await hasRows(users)) report.skip('TABLE DATA auth.users', unknownColumns);
    kind = found ?? kind;
  }
  if (kind !== 'rowhouse') return;
  for (const passwords of of('passwords')) await storePasswords(session, passwords, report);
  for (const settings of of('settings')) await storeSettings(session, settings);
}

const unknownColumns = 'Its columns are neither those of Supabase nor those of Rowhouse.';

async function hasRows({ rows }: AuthRows): Promise<boolean> {
  for await (const _row of rows()) return true;
  return false;
}

function kindOf(columns: readonly string[]): Kind | null {
  if (columns.includes('email_key')) return 'rowhouse';
  return columns.includes('encrypted_password') && columns.includes('raw_user_meta_data') ? 'supabase' : null;
}

type User = { id: string } & Record<string, string | null>;
type Password = { user_id: string; hash: string };

async function storeUsers(
  session: ImportSession,
  { rows }: AuthRows,
  kind: Kind,
  report: Reporting,
): Promise<void> {
  const passwords: Password[] = [];
  const store = async (batch: User[]) => {
    const stored = await send(session, insertUsers, batch);
    report.users += stored;
    for (let n = stored; n < batch.length; n++)
      report.skipInGroup('users', 'Another user has the same id or email address.');
    if (passwords.length > 0) await send(session, insertPasswords, passwords.splice(0));
  };
  await inBatches(rows(), report, store, (row) => {
    const user = readUser(row, kind);
    if (typeof user === 'string') {
      report.skipInGroup(`users: ${user}`, 'The user cannot be stored here.');
      report.noteMissingUser(row.get('id') ?? '', user);
      return null;
    }
    const hash = kind === 'supabase' ? row.get('encrypted_password') : null;
    if (hash && isKnownHash(hash)) passwords.push({ user_id: user.id, hash });
    else if (hash) report.skipInGroup('passwords', unknownHash);
    else if (kind === 'supabase') report.skipInGroup('users without a password', noPassword);
    if (kind === 'supabase') noteLeftOut(row, report);
    return user;
  });
}

/** What a user of Supabase has, and one of ours has not. */
function noteLeftOut(row: CopyRow, report: Reporting): void {
  if (row.get('phone')) report.skipInGroup('phone numbers of users', 'Users have no phone number here.');
  const data = row.get('raw_app_meta_data') ?? '{}';
  if (hasOwnKeys(data))
    report.skipInGroup('raw_app_meta_data of users', 'Users have no data of the app here.');
}

/** The service itself writes two keys. */
function hasOwnKeys(json: string): boolean {
  try {
    const data: unknown = JSON.parse(json);
    if (typeof data !== 'object' || data === null) return false;
    return Object.keys(data).some((key) => key !== 'provider' && key !== 'providers');
  } catch {
    return true;
  }
}

const noPassword =
  'The users are here, but they signed in by a provider, a link or a code. They set a password: POST …/auth/recover.';
const unknownHash =
  'The hash has an unknown form or too high a cost. The user sets a new password: POST …/auth/recover.';

/** A text: why it cannot be stored. */
function readUser(row: CopyRow, kind: Kind): User | string {
  const get = (name: string) => row.get(name) ?? null;
  const id = get('id');
  if (id === null || !uuid.test(id)) return 'the id is not valid';
  const email = get('email');
  if (email === null || email === '') return 'no email address';
  if (get('deleted_at') !== null) return 'deleted';
  try {
    const { typed, key } = readEmail(email);
    const data = readData(parseJsonText(get(kind === 'rowhouse' ? 'data' : 'raw_user_meta_data') ?? '{}'));
    const role = get('role') ?? '';
    return {
      id,
      email: typed,
      email_key: key,
      data,
      role: kind === 'rowhouse' && roleForm.test(role) ? role : 'authenticated',
      created_at: time(get('created_at')),
      updated_at: time(get('updated_at')),
      last_sign_in_at: time(get('last_sign_in_at')),
      email_verified_at: time(get(kind === 'rowhouse' ? 'email_verified_at' : 'email_confirmed_at')),
      banned_at: kind === 'rowhouse' ? time(get('banned_at')) : null,
      banned_until: kind === 'supabase' ? time(get('banned_until')) : null,
    };
  } catch (error) {
    if (error instanceof RowhouseError) return error.message;
    if (error instanceof SyntaxError) return 'data is not valid JSON';
    throw error;
  }
}

function time(value: string | null): string | null {
  return value !== null && timeForm.test(value) ? value : null;
}

const insertUsers = `
  insert into auth.users (id, email, email_key, role, data, created_at, updated_at, last_sign_in_at, email_verified_at, banned_at)
  select id, email, email_key, role, data::pg_catalog.jsonb, coalesce(created_at, pg_catalog.now()),
         coalesce(updated_at, created_at, pg_catalog.now()), last_sign_in_at, email_verified_at,
         coalesce(banned_at, case when banned_until > pg_catalog.now() then pg_catalog.now() end)
  from pg_catalog.jsonb_to_recordset($1::pg_catalog.jsonb) as given (
    id uuid, email text, email_key text, role text, data text, created_at timestamptz, updated_at timestamptz,
    last_sign_in_at timestamptz, email_verified_at timestamptz, banned_at timestamptz, banned_until timestamptz)
  on conflict do nothing`;

async function storePasswords(session: ImportSession, { rows }: AuthRows, report: Reporting): Promise<void> {
  await inBatches(
    rows(),
    report,
    async (batch: Password[]) => void (await send(session, insertPasswords, batch)),
    (row) => {
      const [id, hash] = [row.get('user_id') ?? '', row.get('hash') ?? ''];
      if (uuid.test(id) && isKnownHash(hash)) return { user_id: id, hash };
      report.skipInGroup('passwords', unknownHash);
      return null;
    },
  );
}

const insertPasswords = `
  insert into auth.passwords (user_id, hash)
  select given.user_id, given.hash
  from pg_catalog.jsonb_to_recordset($1::pg_catalog.jsonb) as given (user_id uuid, hash text)
  where exists (select from auth.users where users.id = given.user_id)
  on conflict do nothing`;

async function storeSettings(session: ImportSession, { rows }: AuthRows): Promise<void> {
  for await (const row of rows()) {
    if (!row) continue;
    const value = row.get('refuse_common_passwords') === 't' ? 'true' : 'false';
    await send(
      session,
      "update auth.settings set refuse_common_passwords = ($1::jsonb #>> '{}')::boolean",
      value,
    );
    return;
  }
}

async function inBatches<T>(
  rows: AsyncIterable<CopyRow | null>,
  report: Reporting,
  store: (batch: T[]) => Promise<void>,
  read: (row: CopyRow) => T | null,
): Promise<void> {
  let batch: T[] = [];
  for await (const row of rows) {
    if (!row) report.skipInGroup('users: a value is an expression', 'Only constants are taken over.');
    const value = row && read(row);
    if (value) batch.push(value);
    if (batch.length < batchRows) continue;
    await store(batch);
    batch = [];
  }
  if (batch.length > 0) await store(batch);
}

/** How many rows were stored. */
async function send(session: ImportSession, text: string, value: object[] | string): Promise<number> {
  const { error, tag } = await session.run(text, [typeof value === 'string' ? value : JSON.stringify(value)]);
  if (error) throw new BrokenDump(`users cannot be stored: ${error.message}`);
  return Number(/(\d+)$/.exec(tag)?.[1] ?? 0);
}
