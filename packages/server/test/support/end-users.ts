// End users for tests: put into a project's database by hand, with tokens as the service signs them.
import { randomUUID } from 'node:crypto';
import { type Claims, issuerOf, signToken } from '../../src/access/end-users/access-tokens.ts';
import { openDatabase } from '../../src/postgres/admin/database.ts';
import { type Sql, sql } from '../../src/postgres/sql.ts';
import { databaseOf } from '../../src/servers/databases/names.ts';
import { type Answer, address, type Call, type TestService } from './helpers.ts';

export type TestProject = { slug: string; id: string; key: string };
export type User = { id: string; sessionId: string; email: string; token: string };

/** As a superuser inside a project's database. */
export async function inside<T extends object>(project: { id: string }, statement: Sql): Promise<T[]> {
  const database = openDatabase({ ...address(), database: databaseOf(project.id) }, { max: 1 });
  try {
    return await database.query<T>(statement);
  } finally {
    await database.end();
  }
}

/** A user who has just signed in. */
export async function newUser(
  rowhouse: TestService,
  project: TestProject,
  email = 'ann@example.com',
): Promise<User> {
  const [id, sessionId] = [randomUUID(), randomUUID()];
  await inside(
    project,
    sql`insert into auth.users (id, email, email_key) values (${id}, ${email}, ${`${email} ${id}`})`,
  );
  await inside(
    project,
    sql`
      insert into auth.sessions (id, user_id, token_hash, expires_at)
      values (${sessionId}, ${id}, sha256(${sessionId}::text::bytea), now() + interval '1 day')`,
  );
  return { id, sessionId, email, token: await tokenFor(rowhouse, project, { id, sessionId, email }) };
}

export async function tokenFor(
  { service }: Pick<TestService, 'service'>,
  project: TestProject,
  { id, sessionId, email }: Omit<User, 'token'>,
  other: Partial<Claims> = {},
): Promise<string> {
  const { keyRing, now } = service.deps;
  const [key] = await keyRing.signingKeys(project.id);
  if (!key) throw new Error('The project has no key.');
  const iat = Math.floor(now() / 1000);
  return signToken(key, {
    sub: id,
    email,
    role: 'authenticated',
    iss: issuerOf(project.slug),
    iat,
    exp: iat + 3600,
    sid: sessionId,
    ...other,
  });
}

export type LoginAs = {
  query(text: string): Promise<Answer>;
  publishable: string;
  /** As a user, with the publishable key unless another one is given. */
  rows(user: User | { token: string }, method: string, table: string, options?: Call): Promise<Answer>;
};

/** A project to be used by its users: SQL as its owner, rows as them. */
export async function seatOf(rowhouse: TestService, project: TestProject): Promise<LoginAs> {
  const issued = await rowhouse.call('POST', `/projects/${project.slug}/keys`, {
    body: { name: 'browser', kind: 'publishable' },
  });
  const publishable = issued.body.api_key as string;
  return {
    publishable,
    query: async (text) => {
      const answer = await rowhouse.call('POST', `/projects/${project.slug}/query`, {
        key: project.key,
        body: { query: text },
      });
      if (answer.status !== 200) throw new Error(`${text}\n${JSON.stringify(answer.body)}`);
      return answer;
    },
    rows: (user, method, table, { key = publishable, headers, ...options } = {}) =>
      rowhouse.call(method, `/projects/${project.slug}/tables/${table}`, {
        key,
        headers: { authorization: `Bearer ${user.token}`, ...headers },
        ...options,
      }),
  };
}
