-- What a project must not do in its database, and only a superuser can forbid. The first versions set these guards
-- without a note of it, so this one can be run again.

-- Advisory locks live in one table for the whole server: a million of them made every neighbour's query and login
-- fail. pg_logical_emit_message wrote 2 GB of WAL in 3.5 s.
do $$
declare f regprocedure;
begin
  for f in
    select oid::regprocedure from pg_catalog.pg_proc
    where pronamespace = 'pg_catalog'::regnamespace
      and (proname ~ '^pg_(try_)?advisory_' or proname = 'pg_logical_emit_message')
  loop
    execute pg_catalog.format('revoke execute on function %s from public', f);
  end loop;
end $$;

-- Other languages are left out: a loop in pltcl survives cancel and terminate. PostgreSQL puts what an extension brings
-- into any schema without asking whose it is, as a superuser: ours and PostgreSQL's own are closed.
create or replace function rowhouse.check_extensions() returns event_trigger
language plpgsql set search_path = pg_catalog as $$
declare
  allowed constant text[] := '{btree_gin,btree_gist,citext,cube,dict_int,earthdistance,fuzzystrmatch,hstore,intarray,isn,lo,ltree,pg_trgm,pgcrypto,plpgsql,seg,tablefunc,tcn,tsm_system_rows,tsm_system_time,unaccent,uuid-ossp,vector}';
  refused text;
begin
  select pg_catalog.string_agg(extname, ', ') into refused
  from pg_catalog.pg_extension where extname <> all (allowed);
  if refused is not null then
    raise exception 'extension % is not available to projects', refused
      using errcode = 'insufficient_privilege', hint = 'Available: ' || pg_catalog.array_to_string(allowed, ', ');
  end if;
  select pg_catalog.string_agg(extname || ' in schema ' || nspname, ', ') into refused
  from pg_catalog.pg_extension join pg_catalog.pg_namespace on pg_namespace.oid = extnamespace
  where extname <> 'plpgsql' and (nspname ~ '^pg_' or nspname = any ('{rowhouse,auth,information_schema}'));
  if refused is not null then
    raise exception 'extension % is not available to projects', refused
      using errcode = 'insufficient_privilege', hint = 'Put it into schema public, or into one of your own.';
  end if;
end $$;

drop event trigger if exists rowhouse_extensions;
create event trigger rowhouse_extensions on ddl_command_end
  when tag in ('CREATE EXTENSION', 'ALTER EXTENSION', 'CREATE LANGUAGE')
  execute function rowhouse.check_extensions();
