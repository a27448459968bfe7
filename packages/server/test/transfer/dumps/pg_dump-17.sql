--
-- PostgreSQL database dump
--

\restrict ETPRa826XnOeZ1y7ty7FVbe3qR1B7knQcXbLZucTgmJ6GI0bM6OGJnjiGJ2jKbx

-- Dumped from database version 17.11 (Debian 17.11-0+deb13u1)
-- Dumped by pg_dump version 17.11 (Debian 17.11-0+deb13u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET transaction_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: Odd name; Type: SCHEMA; Schema: -; Owner: source
--

CREATE SCHEMA "Odd name";


ALTER SCHEMA "Odd name" OWNER TO source;

--
-- Name: kind; Type: TYPE; Schema: public; Owner: source
--

CREATE TYPE public.kind AS ENUM (
    'black',
    'green'
);


ALTER TYPE public.kind OWNER TO source;

--
-- Name: price; Type: DOMAIN; Schema: public; Owner: source
--

CREATE DOMAIN public.price AS numeric
	CONSTRAINT price_check CHECK ((VALUE >= (0)::numeric));


ALTER DOMAIN public.price OWNER TO source;

--
-- Name: touch(); Type: FUNCTION; Schema: public; Owner: source
--

CREATE FUNCTION public.touch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ begin new.name := trim(new.name); return new; end $$;


ALTER FUNCTION public.touch() OWNER TO source;

--
-- Name: longest(text); Type: AGGREGATE; Schema: public; Owner: source
--

CREATE AGGREGATE public.longest(text) (
    SFUNC = textcat,
    STYPE = text,
    INITCOND = ''
);


ALTER AGGREGATE public.longest(text) OWNER TO source;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: a "b"; Type: TABLE; Schema: Odd name; Owner: source
--

CREATE TABLE "Odd name"."a ""b""" (
    "select" integer
);


ALTER TABLE "Odd name"."a ""b""" OWNER TO source;

--
-- Name: teas; Type: TABLE; Schema: public; Owner: source
--

CREATE TABLE public.teas (
    id integer NOT NULL,
    name text NOT NULL,
    kind public.kind,
    price public.price,
    doubled numeric GENERATED ALWAYS AS (((price)::numeric * (2)::numeric)) STORED,
    tags text[],
    data jsonb,
    added timestamp with time zone DEFAULT '2026-01-01 00:00:00+00'::timestamp with time zone
);


ALTER TABLE public.teas OWNER TO source;

--
-- Name: TABLE teas; Type: COMMENT; Schema: public; Owner: source
--

COMMENT ON TABLE public.teas IS 'All teas';


--
-- Name: cheap; Type: VIEW; Schema: public; Owner: source
--

CREATE VIEW public.cheap AS
 SELECT name
   FROM public.teas
  WHERE ((price)::numeric < (10)::numeric);


ALTER VIEW public.cheap OWNER TO source;

--
-- Name: counted; Type: MATERIALIZED VIEW; Schema: public; Owner: source
--

CREATE MATERIALIZED VIEW public.counted AS
 SELECT count(*) AS n
   FROM public.teas
  WITH NO DATA;


ALTER MATERIALIZED VIEW public.counted OWNER TO source;

--
-- Name: sales; Type: TABLE; Schema: public; Owner: source
--

CREATE TABLE public.sales (
    tea integer,
    day date
)
PARTITION BY RANGE (day);


ALTER TABLE public.sales OWNER TO source;

--
-- Name: sales_2026; Type: TABLE; Schema: public; Owner: source
--

CREATE TABLE public.sales_2026 (
    tea integer,
    day date
);


ALTER TABLE public.sales_2026 OWNER TO source;

--
-- Name: tagged; Type: TABLE; Schema: public; Owner: source
--

CREATE TABLE public.tagged (
    id uuid NOT NULL,
    tags jsonb,
    at tstzrange
);


ALTER TABLE public.tagged OWNER TO source;

--
-- Name: teas_id_seq; Type: SEQUENCE; Schema: public; Owner: source
--

ALTER TABLE public.teas ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME public.teas_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);


--
-- Name: sales_2026; Type: TABLE ATTACH; Schema: public; Owner: source
--

ALTER TABLE ONLY public.sales ATTACH PARTITION public.sales_2026 FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');


--
-- Data for Name: a "b"; Type: TABLE DATA; Schema: Odd name; Owner: source
--

COPY "Odd name"."a ""b""" ("select") FROM stdin;
\.


--
-- Data for Name: sales_2026; Type: TABLE DATA; Schema: public; Owner: source
--

COPY public.sales_2026 (tea, day) FROM stdin;
1	2026-05-01
2	2026-05-01
3	2026-05-01
4	2026-05-01
5	2026-05-01
6	2026-05-01
7	2026-05-01
8	2026-05-01
9	2026-05-01
10	2026-05-01
11	2026-05-01
12	2026-05-01
13	2026-05-01
14	2026-05-01
15	2026-05-01
16	2026-05-01
17	2026-05-01
18	2026-05-01
19	2026-05-01
20	2026-05-01
\.


--
-- Data for Name: tagged; Type: TABLE DATA; Schema: public; Owner: source
--

COPY public.tagged (id, tags, at) FROM stdin;
00000000-0000-0000-0000-000000000001	{}	["2026-01-01 00:00:00+00","2026-02-01 00:00:00+00")
\.


--
-- Data for Name: teas; Type: TABLE DATA; Schema: public; Owner: source
--

COPY public.teas (id, name, kind, price, tags, data, added) FROM stdin;
1	tea 1	green	1	{a,b}	{"n": 1}	2026-01-01 00:00:00+00
2	tea 2	green	2	{a,b}	{"n": 2}	2026-01-01 00:00:00+00
3	tea 3	green	3	{a,b}	{"n": 3}	2026-01-01 00:00:00+00
4	tea 4	green	4	{a,b}	{"n": 4}	2026-01-01 00:00:00+00
5	tea 5	green	5	{a,b}	{"n": 5}	2026-01-01 00:00:00+00
6	tea 6	green	6	{a,b}	{"n": 6}	2026-01-01 00:00:00+00
7	tea 7	green	7	{a,b}	{"n": 7}	2026-01-01 00:00:00+00
8	tea 8	green	8	{a,b}	{"n": 8}	2026-01-01 00:00:00+00
9	tea 9	green	9	{a,b}	{"n": 9}	2026-01-01 00:00:00+00
10	tea 10	green	10	{a,b}	{"n": 10}	2026-01-01 00:00:00+00
11	tea 11	green	11	{a,b}	{"n": 11}	2026-01-01 00:00:00+00
12	tea 12	green	12	{a,b}	{"n": 12}	2026-01-01 00:00:00+00
13	tea 13	green	13	{a,b}	{"n": 13}	2026-01-01 00:00:00+00
14	tea 14	green	14	{a,b}	{"n": 14}	2026-01-01 00:00:00+00
15	tea 15	green	15	{a,b}	{"n": 15}	2026-01-01 00:00:00+00
16	tea 16	green	16	{a,b}	{"n": 16}	2026-01-01 00:00:00+00
17	tea 17	green	17	{a,b}	{"n": 17}	2026-01-01 00:00:00+00
18	tea 18	green	18	{a,b}	{"n": 18}	2026-01-01 00:00:00+00
19	tea 19	green	19	{a,b}	{"n": 19}	2026-01-01 00:00:00+00
20	tea 20	green	20	{a,b}	{"n": 20}	2026-01-01 00:00:00+00
21	tea 21	green	21	{a,b}	{"n": 21}	2026-01-01 00:00:00+00
22	tea 22	green	22	{a,b}	{"n": 22}	2026-01-01 00:00:00+00
23	tea 23	green	23	{a,b}	{"n": 23}	2026-01-01 00:00:00+00
24	tea 24	green	24	{a,b}	{"n": 24}	2026-01-01 00:00:00+00
25	tea 25	green	25	{a,b}	{"n": 25}	2026-01-01 00:00:00+00
26	tea 26	green	26	{a,b}	{"n": 26}	2026-01-01 00:00:00+00
27	tea 27	green	27	{a,b}	{"n": 27}	2026-01-01 00:00:00+00
28	tea 28	green	28	{a,b}	{"n": 28}	2026-01-01 00:00:00+00
29	tea 29	green	29	{a,b}	{"n": 29}	2026-01-01 00:00:00+00
30	tea 30	green	30	{a,b}	{"n": 30}	2026-01-01 00:00:00+00
31	tea 31	green	31	{a,b}	{"n": 31}	2026-01-01 00:00:00+00
32	tea 32	green	32	{a,b}	{"n": 32}	2026-01-01 00:00:00+00
33	tea 33	green	33	{a,b}	{"n": 33}	2026-01-01 00:00:00+00
34	tea 34	green	34	{a,b}	{"n": 34}	2026-01-01 00:00:00+00
35	tea 35	green	35	{a,b}	{"n": 35}	2026-01-01 00:00:00+00
36	tea 36	green	36	{a,b}	{"n": 36}	2026-01-01 00:00:00+00
37	tea 37	green	37	{a,b}	{"n": 37}	2026-01-01 00:00:00+00
38	tea 38	green	38	{a,b}	{"n": 38}	2026-01-01 00:00:00+00
39	tea 39	green	39	{a,b}	{"n": 39}	2026-01-01 00:00:00+00
40	tea 40	green	40	{a,b}	{"n": 40}	2026-01-01 00:00:00+00
41	tea 41	green	41	{a,b}	{"n": 41}	2026-01-01 00:00:00+00
42	tea 42	green	42	{a,b}	{"n": 42}	2026-01-01 00:00:00+00
43	tea 43	green	43	{a,b}	{"n": 43}	2026-01-01 00:00:00+00
44	tea 44	green	44	{a,b}	{"n": 44}	2026-01-01 00:00:00+00
45	tea 45	green	45	{a,b}	{"n": 45}	2026-01-01 00:00:00+00
46	tea 46	green	46	{a,b}	{"n": 46}	2026-01-01 00:00:00+00
47	tea 47	green	47	{a,b}	{"n": 47}	2026-01-01 00:00:00+00
48	tea 48	green	48	{a,b}	{"n": 48}	2026-01-01 00:00:00+00
49	tea 49	green	49	{a,b}	{"n": 49}	2026-01-01 00:00:00+00
50	tea 50	green	50	{a,b}	{"n": 50}	2026-01-01 00:00:00+00
\.


--
-- Name: teas_id_seq; Type: SEQUENCE SET; Schema: public; Owner: source
--

SELECT pg_catalog.setval('public.teas_id_seq', 50, true);


--
-- Name: 4711; Type: BLOB METADATA; Schema: -; Owner: source
--

SELECT pg_catalog.lo_create('4711');

ALTER LARGE OBJECT 4711 OWNER TO source;

--
-- Name: LARGE OBJECT 4711; Type: COMMENT; Schema: -; Owner: source
--

COMMENT ON LARGE OBJECT 4711 IS 'A large object';


--
-- Data for Name: 4711; Type: BLOBS; Schema: -; Owner: source
--

BEGIN;

SELECT pg_catalog.lo_open('4711', 131072);
SELECT pg_catalog.lowrite(0, '\x6c61726765');
SELECT pg_catalog.lo_close(0);

COMMIT;

--
-- Name: tagged tagged_at_excl; Type: CONSTRAINT; Schema: public; Owner: source
--

ALTER TABLE ONLY public.tagged
    ADD CONSTRAINT tagged_at_excl EXCLUDE USING gist (at WITH &&);


--
-- Name: tagged tagged_pkey; Type: CONSTRAINT; Schema: public; Owner: source
--

ALTER TABLE ONLY public.tagged
    ADD CONSTRAINT tagged_pkey PRIMARY KEY (id);


--
-- Name: teas teas_name_key; Type: CONSTRAINT; Schema: public; Owner: source
--

ALTER TABLE ONLY public.teas
    ADD CONSTRAINT teas_name_key UNIQUE (name);


--
-- Name: teas teas_pkey; Type: CONSTRAINT; Schema: public; Owner: source
--

ALTER TABLE ONLY public.teas
    ADD CONSTRAINT teas_pkey PRIMARY KEY (id);


--
-- Name: teas touching; Type: TRIGGER; Schema: public; Owner: source
--

CREATE TRIGGER touching BEFORE INSERT ON public.teas FOR EACH ROW EXECUTE FUNCTION public.touch();


--
-- Name: sales sales_tea_fkey; Type: FK CONSTRAINT; Schema: public; Owner: source
--

ALTER TABLE public.sales
    ADD CONSTRAINT sales_tea_fkey FOREIGN KEY (tea) REFERENCES public.teas(id) ON DELETE CASCADE;


--
-- Name: teas reading; Type: POLICY; Schema: public; Owner: source
--

CREATE POLICY reading ON public.teas FOR SELECT USING ((kind = 'green'::public.kind));


--
-- Name: teas; Type: ROW SECURITY; Schema: public; Owner: source
--

ALTER TABLE public.teas ENABLE ROW LEVEL SECURITY;

--
-- Name: TABLE teas; Type: ACL; Schema: public; Owner: source
--

GRANT SELECT ON TABLE public.teas TO reader;


--
-- Name: DEFAULT PRIVILEGES FOR TABLES; Type: DEFAULT ACL; Schema: public; Owner: source
--

ALTER DEFAULT PRIVILEGES FOR ROLE source IN SCHEMA public GRANT SELECT ON TABLES TO reader;


--
-- Name: counted; Type: MATERIALIZED VIEW DATA; Schema: public; Owner: source
--

REFRESH MATERIALIZED VIEW public.counted;


--
-- PostgreSQL database dump complete
--

\unrestrict ETPRa826XnOeZ1y7ty7FVbe3qR1B7knQcXbLZucTgmJ6GI0bM6OGJnjiGJ2jKbx

