import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { Subjects, subjectOf } from './subject.ts';

const label = (text: string) => {
  const found = subjectOf(text);
  return found && [found.kind, found.schema ?? '-', found.name].join(' ');
};

/** Without what nothing refers to. */
function heapMb(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage().heapUsed / 1024 ** 2;
}

describe('what a statement is about', () => {
  it.each([
    ['INSERT INTO "auth"."users" ("id") VALUES (1);', 'TABLE DATA auth users'],
    ['insert into Teas values (1);', 'TABLE DATA - teas'],
    ['COPY "public"."a ""b""" ("x") FROM stdin;', 'TABLE DATA public a "b"'],
    ['CREATE TABLE IF NOT EXISTS "public"."teas" (\n"id" int);', 'TABLE public teas'],
    ['CREATE UNLOGGED TABLE shop.t ();', 'TABLE shop t'],
    ['CREATE OR REPLACE VIEW "public"."v" AS SELECT 1;', 'VIEW public v'],
    ['CREATE MATERIALIZED VIEW public.m AS SELECT 1;', 'MATERIALIZED VIEW public m'],
    [
      'CREATE OR REPLACE FUNCTION "storage"."foldername"("name" text) RETURNS text',
      'FUNCTION storage foldername',
    ],
    ['CREATE TYPE "public"."mood" AS ENUM (\'a\');', 'TYPE public mood'],
    ['CREATE SCHEMA IF NOT EXISTS "auth";', 'SCHEMA - auth'],
    ['CREATE EXTENSION IF NOT EXISTS "uuid-ossp" WITH SCHEMA "extensions";', 'EXTENSION - uuid-ossp'],
    ['CREATE UNIQUE INDEX i ON ONLY "public"."teas" USING btree (id);', 'INDEX public teas'],
    [
      'CREATE OR REPLACE TRIGGER "on_created" AFTER INSERT OR UPDATE OF "email" ON "auth"."users" FOR EACH ROW EXECUTE FUNCTION "public"."f"();',
      'TRIGGER auth users on_created',
    ],
    [
      'CREATE POLICY "Own ""rows""" ON "storage"."objects" FOR SELECT USING (true);',
      'POLICY storage objects Own "rows"',
    ],
    ['CREATE RULE r AS ON INSERT TO public.t DO INSTEAD NOTHING;', 'RULE public t r'],
    ['CREATE EVENT TRIGGER watch ON ddl_command_end EXECUTE FUNCTION f();', 'EVENT TRIGGER - watch'],
    [
      'CREATE PUBLICATION "supabase_realtime" WITH (publish = \'insert\');',
      'PUBLICATION - supabase_realtime',
    ],
    ['ALTER PUBLICATION "supabase_realtime" ADD TABLE ONLY "public"."t";', 'PUBLICATION - supabase_realtime'],
    ['ALTER TABLE ONLY "storage"."objects" ADD CONSTRAINT "x" PRIMARY KEY ("id");', 'TABLE storage objects'],
    ['ALTER TABLE "public"."t" OWNER TO "postgres";', 'TABLE public t'],
    ['ALTER FUNCTION "public"."f"() OWNER TO "postgres";', 'FUNCTION public f'],
    ['ALTER SCHEMA "extensions" OWNER TO "postgres";', 'SCHEMA - extensions'],
    [
      'ALTER DEFAULT PRIVILEGES FOR ROLE "postgres" IN SCHEMA "storage" GRANT ALL ON TABLES TO "anon";',
      'DEFAULT ACL storage DEFAULT PRIVILEGES',
    ],
    ['COMMENT ON TABLE "auth"."users" IS \'x\';', 'COMMENT auth users'],
    ['COMMENT ON SCHEMA "public" IS \'x\';', 'COMMENT - SCHEMA public'],
    ["COMMENT ON POLICY p ON storage.objects IS 'x';", 'COMMENT storage objects'],
    ['GRANT ALL ON TABLE "auth"."users" TO "dashboard_user";', 'ACL auth users'],
    ['GRANT SELECT,INSERT ON "public"."t" TO anon;', 'ACL public t'],
    ['GRANT USAGE ON SCHEMA "storage" TO "anon";', 'ACL - SCHEMA storage'],
    ['REVOKE ALL ON FUNCTION "graphql"."f"("a" "text") FROM PUBLIC;', 'ACL graphql f'],
    [
      `SELECT pg_catalog.setval('"auth"."refresh_tokens_id_seq"', 1, false);`,
      'SEQUENCE SET auth refresh_tokens_id_seq',
    ],
    ['ALTER DATABASE "shop" SET search_path = x;', 'DATABASE PROPERTIES - shop'],
    ['ALTER DATABASE shop OWNER TO ada;', 'DATABASE CHANGE - shop'],
    ['DROP DATABASE IF EXISTS shop;', 'DATABASE CHANGE - shop'],
    ['CREATE ROLE "reader";', 'ROLE - reader'],
    ['SET row_security = off;', null],
    ['SELECT 1;', null],
  ])('%s', (text, expected) => {
    expect(label(text)).toBe(expected);
  });

  it('is the same for each statement of a script, also when the one before begins alike', () => {
    const subjects = new Subjects();
    const found = [
      'INSERT INTO a VALUES (1);',
      'INSERT INTO a VALUES (2);',
      'INSERT INTO a.b VALUES (1);',
      'INSERT INTO a .b VALUES (1);',
      'INSERT INTO a (x) VALUES (1);',
      'INSERT INTO a(x) VALUES (1);',
      'INSERT INTO ab VALUES (1);',
      'INSERT INTO "a" VALUES (1);',
      'INSERT INTO "a"."b" ("x") VALUES (1);',
      'INSERT INTO "a"."b" ("y") VALUES (1);',
      'INSERT INTO "a""b" ("x") VALUES (1);',
      'INSERT INTO "a"          ."b" ("x") VALUES (1);',
      'COPY a FROM stdin;',
      'CREATE TABLE a ();',
      'SELECT 1;',
      'insert into a values (1);',
    ].map((text) => [subjects.of(text), subjectOf(text)]);
    for (const [one, other] of found) expect(one).toEqual(other);
    // Found once.
    expect(found[1]?.[0]).toBe(found[0]?.[0]);
    expect(found[9]?.[0]).toBe(found[8]?.[0]);
  });

  it('keeps no statement in memory', () => {
    const before = heapMb();
    const names = Array.from({ length: 100 }, (_, n) => {
      const text = Buffer.from(
        `create table shop.a_name_of_a_table_${n} ${'('.repeat(1024 ** 2)}`,
      ).toString();
      return subjectOf(text)?.name;
    });
    expect(heapMb() - before).toBeLessThan(50);
    expect(names[99]).toBe('a_name_of_a_table_99');
  });

  it('is found in time that is proportional to its length', () => {
    const started = performance.now();
    for (const text of [
      `create table ${'"'.repeat(100_000)}`,
      `grant ${'select, '.repeat(20_000)} on x to y;`,
      `create trigger t ${'on '.repeat(50_000)}`,
      `alter default privileges ${' '.repeat(100_000)} in`,
      `insert into ${' '.repeat(100_000)}`,
    ])
      subjectOf(text);
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});
