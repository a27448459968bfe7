import { expect, it } from 'vitest';
import { subjectOf } from '../read/subject.ts';
import { isTelling, OriginSearch } from './origin.ts';

/** As a script without headings is looked through. */
function isOfSupabase(...statements: string[]): boolean {
  const search = new OriginSearch();
  for (const text of statements)
    search.noteStatement(text, isTelling(text, false) ? subjectOf(text) : null, false);
  return search.result().isSupabase;
}

it.each([
  ['a grant', 'GRANT SELECT ON TABLE public.a TO supabase_admin;'],
  ['a grant to another role', 'GRANT SELECT ON TABLE public.a TO "supabase_reader";'],
  ['a revoke', 'REVOKE ALL ON SCHEMA public FROM supabase_storage_admin;'],
  [
    'default privileges',
    'ALTER DEFAULT PRIVILEGES FOR ROLE supabase_admin IN SCHEMA public GRANT ALL ON TABLES TO anon;',
  ],
  ['an owner', 'ALTER TABLE public.a OWNER TO supabase_admin;'],
  ['an owner of its own', 'ALTER TABLE storage.objects OWNER TO supabase_copy;'],
  ['a role', 'CREATE ROLE supabase_admin;'],
  ['a schema', 'CREATE SCHEMA storage;'],
  ['two schemas', 'CREATE SCHEMA storage;', 'CREATE SCHEMA realtime;', 'CREATE SCHEMA vault;'],
  ['an extension that others have, too', 'CREATE EXTENSION pg_graphql;'],
  [
    'tables of the same names',
    'CREATE TABLE storage.objects (id int, bucket_id int);',
    'CREATE TABLE storage.buckets (file_size_limit int);',
  ],
  ['users of its own', 'CREATE TABLE auth.users (id int, encrypted_password text);'],
])('%s does not make a dump one of Supabase', (_what, ...statements) => {
  expect(isOfSupabase(...statements)).toBe(false);
});

it.each([
  'ALTER PUBLICATION "supabase_realtime" OWNER TO "postgres";',
  'CREATE EXTENSION IF NOT EXISTS "supabase_vault" WITH SCHEMA "vault";',
  'CREATE TABLE auth.users (id uuid, encrypted_password text, raw_user_meta_data jsonb);',
  'COPY storage.objects (id, bucket_id, name, owner, created_at, updated_at, last_accessed_at, metadata) FROM stdin;',
  'INSERT INTO "storage"."buckets" ("id", "file_size_limit", "allowed_mime_types") VALUES (1, 2, 3);',
  'ALTER TABLE "storage"."objects" OWNER TO "supabase_storage_admin";',
  'ALTER SCHEMA realtime OWNER TO supabase_admin;',
])('%s makes it one', (statement) => {
  expect(isOfSupabase(statement)).toBe(true);
});
