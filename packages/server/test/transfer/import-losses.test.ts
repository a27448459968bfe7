// An import that took less than its dump holds says so: its status is done_with_losses, and its report begins with what was
// lost. Dumps in the forms of Supabase's CLI, of other services, and edited by hand, without the comments of pg_dump.
import { describe, expect, it } from 'vitest';
import { run } from '../support/exports.ts';
import { importDump, lostOf, useImports } from '../support/importing.ts';
import {
  ada,
  bob,
  data,
  eve,
  hash,
  schema,
  user,
  userColumns,
  users,
  withoutComments,
} from './supabase-dump.ts';

const rowhouse = useImports();

describe("a dump of Supabase's CLI", () => {
  it.each([
    ['with comments', data()],
    ['without comments', withoutComments(data())],
  ])('is taken over whole: its schema, its users and its rows, %s', async (_how, rows) => {
    const { project, job } = await importDump(rowhouse, schema + rows);
    expect(job.error).toBeNull();
    expect(lostOf(job)).toEqual([]);
    expect(job.status).toBe('done');
    expect(job.result).toMatchObject({ tables: 2, rows: 3, users: 1, lost_count: 0 });
    const { rows: found } = await run(
      rowhouse,
      project,
      `select name, email, data, (select count(*)::int from notes where owner = u.id) as notes,
        (select count(*)::int from pg_constraint where contype = 'f' and convalidated and connamespace = 'public'::regnamespace) as keys,
        (select tgenabled from pg_trigger where tgname = 'counting') as trigger, (select count(*)::int from pg_policies) as policies
       from profiles join auth.users u using (id)`,
    );
    // The trigger did not run, and is there.
    expect(found).toEqual([
      {
        name: 'Ada',
        email: 'ada@example.com',
        data: { name: "it's (me), \\ ok" },
        notes: 2,
        keys: 3,
        trigger: 'O',
        policies: 1,
      },
    ]);
    const made = await run(
      rowhouse,
      project,
      "insert into notes (body) values ('new') returning id is not null as ok",
    );
    expect(made.rows).toEqual([{ ok: true }]);
  });

  it('of roles alone is needless for the usual ones, and a loss for others', async () => {
    const roles = `SET default_transaction_read_only = off;\nSET client_encoding = 'UTF8';\nALTER ROLE "anon" SET "statement_timeout" TO '3s';\nALTER ROLE "authenticator" SET "statement_timeout" TO '8s';\nGRANT "anon" TO "authenticator";\n`;
    const usual = await importDump(rowhouse, `${roles}RESET ALL;\n`);
    expect([usual.job.status, lostOf(usual.job)]).toEqual(['done', []]);
    const own = await importDump(
      rowhouse,
      `${roles}CREATE ROLE "reporting";\nALTER ROLE "reporting" WITH NOINHERIT;\nRESET ALL;\n`,
    );
    expect(own.job.status).toBe('done_with_losses');
    expect(lostOf(own.job).join()).toContain('CREATE ROLE "reporting"');
  });

  it('of data alone loses everything but the users, loudly', async () => {
    const { job } = await importDump(rowhouse, data());
    expect(job.status).toBe('done_with_losses');
    expect(job.result).toMatchObject({ tables: 0, rows: 0, users: 1, lost_count: 2 });
    expect(lostOf(job)).toEqual([
      expect.stringContaining('TABLE DATA public.notes'),
      expect.stringContaining('TABLE DATA public.profiles'),
    ]);
  });

  it('without the schema extensions, and without CREATE EXTENSION, has both', async () => {
    const edited = schema.replaceAll(/^CREATE EXTENSION .*\n/gm, '');
    const { job } = await importDump(rowhouse, edited + withoutComments(data()));
    expect([job.status, lostOf(job)]).toEqual(['done', []]);
    expect(job.result).toMatchObject({ tables: 2, rows: 3, users: 1 });
  });

  it('loses what storage, realtime, cron and policies on them hold', async () => {
    const more = `
INSERT INTO "auth"."sessions" ("id", "user_id") VALUES ('${ada}', '${ada}');
INSERT INTO "auth"."mfa_factors" ("id", "user_id") VALUES ('${ada}', '${ada}');
INSERT INTO "storage"."buckets" ("id", "name", "file_size_limit") VALUES ('avatars', 'avatars', NULL);
INSERT INTO "storage"."objects" ("id", "bucket_id") VALUES ('${ada}', 'avatars'), ('${bob}', 'avatars');
INSERT INTO "storage"."migrations" ("id") VALUES (1);
COPY "storage"."prefixes" ("bucket_id") FROM stdin;
x
\\.
COPY "vault"."secrets" ("id") FROM stdin;
\\.
COPY "cron"."job" ("jobid") FROM stdin;
1
\\.
CREATE POLICY "Avatars" ON "storage"."objects" FOR SELECT USING (true);
CREATE OR REPLACE TRIGGER "on_created" AFTER INSERT ON "auth"."users" FOR EACH ROW EXECUTE FUNCTION "public"."welcome"();
CREATE TABLE IF NOT EXISTS "storage"."objects" ("id" "uuid");
`;
    for (const dump of [schema + data(more), schema + withoutComments(data(more))]) {
      const { job } = await importDump(rowhouse, dump);
      expect(job.status).toBe('done_with_losses');
      expect(
        lostOf(job)
          .map((line) => line.split(':')[0])
          .sort(),
      ).toEqual([
        expect.stringContaining('CREATE OR REPLACE TRIGGER "on_created"'),
        expect.stringContaining('CREATE POLICY "Avatars"'),
        'TABLE DATA auth.mfa_factors',
        'TABLE DATA cron.job',
        'TABLE DATA storage.buckets',
        'TABLE DATA storage.objects',
      ]);
      expect(job.result).toMatchObject({ tables: 2, rows: 3, users: 1, lost_count: 6 });
      // What is lost comes first.
      const order = job.result.skipped.map(({ lost }: { lost: boolean }) => lost);
      expect(order).toEqual([...order].sort((one, other) => Number(other) - Number(one)));
    }
  });

  it('says which users were not stored or have no password, and names the one that a row refers to', async () => {
    const owners = users(
      user(ada, 'ada@example.com', hash),
      user(bob, 'bob@example.com', null),
      user(eve, null, null),
    );
    const more = `INSERT INTO "public"."profiles" ("id", "name") VALUES ('${eve}', 'Eve');\n`;
    const { project, job } = await importDump(rowhouse, schema + data(more, owners));
    expect(job.status).toBe('done_with_losses');
    expect(job.result).toMatchObject({ rows: 4, users: 2 });
    expect(lostOf(job)).toEqual([
      expect.stringMatching(/^users without a password: .*auth\/recover/),
      'users: no email address: The user cannot be stored here.',
      `FK CONSTRAINT public.profiles profiles_id_fkey: It is here, but NOT VALID. It refers to the user ${eve}, who was not imported: no email address.`,
    ]);
    const { rows } = await run(rowhouse, project, 'select count(*)::int as n from profiles');
    expect(rows).toEqual([{ n: 2 }]);
  });

  it('as pg_dump writes it, with the foreign keys after the rows, names the user as well', async () => {
    const dump = `${users(user(eve, null, null))}CREATE TABLE public.p (id uuid);
COPY public.p (id) FROM stdin;
${eve}
\\.
ALTER TABLE ONLY public.p ADD CONSTRAINT p_fkey FOREIGN KEY (id) REFERENCES auth.users(id);
`;
    const { job } = await importDump(rowhouse, dump);
    expect(lostOf(job).join('\n')).toContain(
      `It refers to the user ${eve}, who was not imported: no email address.`,
    );
    expect([job.status, job.result.rows]).toEqual(['done_with_losses', 1]);
  });
});

describe('an edited dump', () => {
  it.each([
    [
      'a statement that fails',
      'CREATE TABLE public.a (id int);\nCREATE VIEW public.v AS SELECT * FROM public.missing;\n',
    ],
    ['an extension that is not there', 'CREATE TABLE public.a (id int);\nCREATE EXTENSION postgis;\n'],
    [
      'a table that cannot be made, and its rows',
      'CREATE TABLE public.a (g geometry);\nINSERT INTO public.a VALUES (1);\n',
    ],
    [
      'a grant to a role of its own server',
      'CREATE TABLE public.a (id int);\nGRANT SELECT ON public.a TO reader;\n',
    ],
    ['a command of psql', "CREATE TABLE public.a (id int);\n\\copy public.a from 'x.csv'\n"],
    [
      'a setting of the database',
      "CREATE TABLE public.a (id int);\nALTER DATABASE shop SET search_path = 'x';\n",
    ],
    ['a transaction that is undone', 'BEGIN;\nCREATE TABLE public.a (id int);\nROLLBACK;\n'],
    [
      'users that only PostgreSQL could compute',
      `INSERT INTO auth.users (${userColumns}) SELECT * FROM public.x;\n`,
    ],
    ['a schema auth of its own', 'CREATE SCHEMA auth;\nCREATE TABLE auth.things (id int);\n'],
    [
      'statements under a heading that is not theirs',
      '-- Name: users; Type: TABLE; Schema: auth; Owner: supabase_auth_admin\n\nCREATE TABLE auth.users (encrypted_password text, raw_user_meta_data jsonb);\nCREATE EXTENSION postgis;\n',
    ],
  ])('with %s is done with losses', async (_what, dump) => {
    const { job } = await importDump(rowhouse, dump);
    expect(job.error).toBeNull();
    expect([job.status, job.result.lost_count > 0]).toEqual(['done_with_losses', true]);
    expect(lostOf(job).length).toBe(Math.min(200, job.result.lost_count));
  });

  it.each([
    [
      'settings, owners and comments on extensions',
      "SET foo.bar = 1;\nSET log_statement = 'all';\nCREATE TABLE public.a (id int);\nALTER TABLE public.a OWNER TO alice;\nCOMMENT ON EXTENSION plpgsql IS 'x';\n\\echo done\n",
    ],
    ['a schema that it does not create', 'CREATE TABLE shop.a (id int);\nCREATE INDEX i ON shop.a (id);\n'],
    [
      "roles of Neon's, RDS's and Heroku's",
      'CREATE TABLE public.a (id int);\nGRANT ALL ON public.a TO neon_superuser;\nALTER DEFAULT PRIVILEGES FOR ROLE cloud_admin IN SCHEMA public GRANT ALL ON TABLES TO neon_superuser;\nREVOKE ALL ON SCHEMA public FROM rdsadmin;\nCREATE EXTENSION IF NOT EXISTS pg_stat_statements WITH SCHEMA heroku_ext;\nCREATE EXTENSION IF NOT EXISTS pgcrypto WITH SCHEMA heroku_ext;\n',
    ],
  ])('with %s loses nothing', async (_what, dump) => {
    const { job } = await importDump(rowhouse, dump);
    expect([job.status, lostOf(job)]).toEqual(['done', []]);
    expect(job.result.tables).toBe(1);
  });

  it('keeps what a transaction did before one of its statements failed', async () => {
    const dump = `BEGIN;\nCREATE TABLE public.a (id int);\nINSERT INTO public.a VALUES (1);\nCREATE EXTENSION postgis;\nINSERT INTO public.a VALUES (2);
COPY public.missing (id) FROM stdin;\n1\n\\.\nCOMMIT;\nINSERT INTO public.a VALUES (3);\n`;
    const { project, job } = await importDump(rowhouse, dump);
    expect([job.status, job.result.tables, job.result.rows]).toEqual(['done_with_losses', 1, 3]);
    expect((await run(rowhouse, project, 'select array_agg(id order by id) as ids from a')).rows).toEqual([
      { ids: [1, 2, 3] },
    ]);
    expect(lostOf(job)).toHaveLength(2);
  });

  it.each([
    [
      'its last line',
      '--\n-- PostgreSQL database dump\n--\n\nCREATE TABLE a (id int);\n',
      '-- PostgreSQL database dump complete',
    ],
    [
      'the last line of the first of two',
      '-- PostgreSQL database dump\ncreate table a ();\n-- PostgreSQL database dump\ncreate table b ();\n-- PostgreSQL database dump complete\n',
      'complete',
    ],
    [
      'the end of its rows',
      'CREATE TABLE public.a (id int);\nCOPY public.a (id) FROM stdin;\n1\n',
      'the line "\\." is missing behind the rows of COPY public.a (id)',
    ],
    [
      'the end of a statement',
      'CREATE TABLE public.a (id int);\nCREATE TABLE public.b (\n  id int',
      'CREATE TABLE public.b ( id int',
    ],
  ])('without %s says what is missing', async (_what, dump, missing) => {
    const { job } = await importDump(rowhouse, dump);
    expect([job.status, job.error.code]).toEqual(['failed', 'invalid_dump']);
    expect(job.error.message).toContain('the dump ends too early: ');
    expect(job.error.message).toContain(missing);
  });

  it('with its triggers disabled, as by pg_dump --disable-triggers, runs none of them', async () => {
    const dump = `CREATE TABLE public.a (id int PRIMARY KEY, b int, name text);
CREATE FUNCTION public.change() RETURNS trigger LANGUAGE plpgsql AS $$ begin new.name := 'changed'; return new; end $$;
CREATE TRIGGER changing BEFORE INSERT ON public.a FOR EACH ROW EXECUTE FUNCTION public.change();
ALTER TABLE public.a ADD CONSTRAINT self FOREIGN KEY (b) REFERENCES public.a;
ALTER TABLE public.a DISABLE TRIGGER ALL;
COPY public.a (id, b, name) FROM stdin;
1\t2\tone
\\.
INSERT INTO public.a VALUES (2, 1, 'two');
ALTER TABLE public.a ENABLE TRIGGER ALL;
`;
    const { project, job } = await importDump(rowhouse, dump);
    expect([job.status, lostOf(job)]).toEqual(['done', []]);
    const { rows } = await run(
      rowhouse,
      project,
      `select array_agg(name order by id) as names, (select tgenabled from pg_trigger where tgname = 'changing') as trigger,
        (select convalidated from pg_constraint where conname = 'self') as valid from a`,
    );
    expect(rows).toEqual([{ names: ['one', 'two'], trigger: 'O', valid: true }]);
  });

  it('may have statements behind its last line', async () => {
    const { job } = await importDump(
      rowhouse,
      `-- PostgreSQL database dump\ncreate table a ();\n-- PostgreSQL database dump complete\n${'-- mine\n'.repeat(500)}create table b ();\n`,
    );
    expect([job.status, job.result.tables]).toEqual(['done', 2]);
  });
});

it('a plain dump with a grant to a role of Supabase keeps its own schemas', async () => {
  const dump = `CREATE SCHEMA storage;
CREATE SCHEMA realtime;
CREATE TABLE storage.objects (id int, bucket_id int);
CREATE TABLE realtime.messages (id int);
GRANT SELECT ON TABLE storage.objects TO supabase_admin;
ALTER TABLE realtime.messages OWNER TO supabase_admin_of_ours;
INSERT INTO storage.objects VALUES (1, 2);
COPY realtime.messages (id) FROM stdin;
1
\\.
GRANT SELECT ON TABLE storage.objects TO supabase_reader;
`;
  const { project, job } = await importDump(rowhouse, dump);
  expect(job.result).toMatchObject({ tables: 2, rows: 2, lost_count: 1 });
  expect(lostOf(job)).toEqual([expect.stringContaining('The role "supabase_reader" does not exist here.')]);
  const { rows } = await run(
    rowhouse,
    project,
    'select bucket_id, m.id from storage.objects, realtime.messages m',
  );
  expect(rows).toEqual([{ bucket_id: 2, id: 1 }]);
});
