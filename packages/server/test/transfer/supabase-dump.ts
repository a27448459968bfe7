// A dump as Supabase's CLI writes it: a schema, and the rows of its tables and of the users.

export const [ada, bob, eve] = [1, 2, 3].map((n) => `00000000-0000-4000-8000-00000000000${n}`);
export const hash = '$2a$10$abcdefghijklmnopqrstuuABCDEFGHIJKLMNOPQRSTUVWXYZ01234';

const beginning = `SET statement_timeout = 0;
SET lock_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET row_security = off;
`;

/** supabase db dump: pg_dump --schema-only --quote-all-identifiers, without comments, with IF NOT EXISTS and OR REPLACE. */
export const schema = `${beginning}
CREATE SCHEMA IF NOT EXISTS "public";
ALTER SCHEMA "public" OWNER TO "pg_database_owner";
CREATE EXTENSION IF NOT EXISTS "pg_graphql" WITH SCHEMA "graphql";
CREATE EXTENSION IF NOT EXISTS "pg_stat_statements" WITH SCHEMA "extensions";
CREATE EXTENSION IF NOT EXISTS "pgcrypto" WITH SCHEMA "extensions";
CREATE EXTENSION IF NOT EXISTS "supabase_vault" WITH SCHEMA "vault";
CREATE EXTENSION IF NOT EXISTS "uuid-ossp" WITH SCHEMA "extensions";

CREATE OR REPLACE FUNCTION "public"."welcome"() RETURNS "trigger"
    LANGUAGE "plpgsql" SECURITY DEFINER
    AS $$ begin insert into public.profiles (id, name) values (new.id, 'made by a trigger'); return new; end; $$;
ALTER FUNCTION "public"."welcome"() OWNER TO "postgres";
CREATE OR REPLACE FUNCTION "public"."count_up"() RETURNS "trigger" LANGUAGE "plpgsql"
    AS $$ begin new.name := new.name || ' (changed)'; return new; end; $$;
SET default_tablespace = '';
SET default_table_access_method = "heap";

CREATE TABLE IF NOT EXISTS "public"."profiles" (
    "id" "uuid" NOT NULL,
    "name" "text"
);
ALTER TABLE "public"."profiles" OWNER TO "postgres";
CREATE TABLE IF NOT EXISTS "public"."notes" (
    "id" "uuid" DEFAULT "extensions"."uuid_generate_v4"() NOT NULL,
    "owner" "uuid",
    "reply_to" "uuid",
    "body" "text"
);
ALTER TABLE "public"."notes" OWNER TO "postgres";
ALTER TABLE ONLY "public"."notes" ADD CONSTRAINT "notes_pkey" PRIMARY KEY ("id");
ALTER TABLE ONLY "public"."profiles" ADD CONSTRAINT "profiles_pkey" PRIMARY KEY ("id");
CREATE INDEX "notes_owner" ON "public"."notes" USING "btree" ("owner");
CREATE OR REPLACE TRIGGER "counting" BEFORE INSERT ON "public"."profiles" FOR EACH ROW EXECUTE FUNCTION "public"."count_up"();
ALTER TABLE ONLY "public"."notes" ADD CONSTRAINT "notes_owner_fkey" FOREIGN KEY ("owner") REFERENCES "public"."profiles"("id");
ALTER TABLE ONLY "public"."notes" ADD CONSTRAINT "notes_reply_fkey" FOREIGN KEY ("reply_to") REFERENCES "public"."notes"("id");
ALTER TABLE ONLY "public"."profiles"
    ADD CONSTRAINT "profiles_id_fkey" FOREIGN KEY ("id") REFERENCES "auth"."users"("id") ON DELETE CASCADE;
CREATE POLICY "Own notes" ON "public"."notes" TO "authenticated" USING ((( SELECT "auth"."uid"() AS "uid") = "owner"));
ALTER TABLE "public"."notes" ENABLE ROW LEVEL SECURITY;
ALTER PUBLICATION "supabase_realtime" OWNER TO "postgres";
ALTER PUBLICATION "supabase_realtime" ADD TABLE ONLY "public"."notes";
GRANT USAGE ON SCHEMA "public" TO "postgres";
GRANT USAGE ON SCHEMA "public" TO "anon";
GRANT ALL ON TABLE "public"."notes" TO "anon";
GRANT ALL ON TABLE "public"."notes" TO "authenticated";
GRANT ALL ON TABLE "public"."notes" TO "service_role";
ALTER DEFAULT PRIVILEGES FOR ROLE "postgres" IN SCHEMA "public" GRANT ALL ON TABLES TO "postgres";
ALTER DEFAULT PRIVILEGES FOR ROLE "postgres" IN SCHEMA "public" GRANT ALL ON TABLES TO "anon";
RESET ALL;
`;

export const userColumns = `"instance_id", "id", "aud", "role", "email", "encrypted_password", "email_confirmed_at", "raw_app_meta_data", "raw_user_meta_data", "is_super_admin", "created_at", "phone", "is_sso_user", "deleted_at", "is_anonymous"`;
export const user = (id: string | undefined, email: string | null, password: string | null) =>
  `('00000000-0000-0000-0000-000000000000', '${id}', 'authenticated', 'authenticated', ${email === null ? 'NULL' : `'${email}'`}, ${password === null ? 'NULL' : `'${password}'`}, '2026-01-02 03:04:05+00', '{"provider": "email", "providers": ["email"]}', '{"name": "it''s (me), \\\\ ok"}', NULL, '2026-01-02 03:04:05.123456+00', NULL, false, NULL, false)`;
export const users = (...rows: string[]) =>
  `INSERT INTO "auth"."users" (${userColumns}) VALUES\n\t${rows.join(',\n\t')};\n`;

/** supabase db dump --data-only: INSERTs of several rows, with the comments of pg_dump. */
export const data = (
  more = '',
  owners = users(user(ada, 'ada@example.com', hash)),
) => `SET session_replication_role = replica;

--
-- PostgreSQL database dump
--

${beginning}
--
-- Data for Name: users; Type: TABLE DATA; Schema: auth; Owner: supabase_auth_admin
--

${owners}

--
-- Data for Name: notes; Type: TABLE DATA; Schema: public; Owner: postgres
--

INSERT INTO "public"."notes" ("id", "owner", "reply_to", "body") VALUES
\t('10000000-0000-4000-8000-000000000001', '${ada}', '10000000-0000-4000-8000-000000000002', 'first;'),
\t('10000000-0000-4000-8000-000000000002', '${ada}', NULL, 'second');


--
-- Data for Name: profiles; Type: TABLE DATA; Schema: public; Owner: postgres
--

INSERT INTO "public"."profiles" ("id", "name") VALUES
\t('${ada}', 'Ada');
${more}

--
-- Name: refresh_tokens_id_seq; Type: SEQUENCE SET; Schema: auth; Owner: supabase_auth_admin
--

SELECT pg_catalog.setval('"auth"."refresh_tokens_id_seq"', 1, false);

--
-- PostgreSQL database dump complete
--

RESET ALL;
`;
export const withoutComments = (text: string) => text.replaceAll(/^--.*\n/gm, '');
