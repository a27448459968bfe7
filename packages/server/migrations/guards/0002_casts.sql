-- A foreign key from a column of another type to auth.users casts that column, and the cast runs as the owner of
-- auth.users: a function of the project's own would read the hashes of passwords.
create function rowhouse.check_casts() returns event_trigger
language plpgsql set search_path = pg_catalog as $$
begin
  if exists (
    select from pg_cast
    where casttarget = 'uuid'::regtype and castcontext = 'i' and castfunc >= 16384
  ) then
    raise exception 'an implicit cast to uuid is not available to projects'
      using errcode = 'insufficient_privilege', hint = 'Leave out AS IMPLICIT.';
  end if;
end $$;

create event trigger rowhouse_casts on ddl_command_end when tag in ('CREATE CAST') execute function rowhouse.check_casts();
