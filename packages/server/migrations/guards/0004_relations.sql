-- How many tables, indexes, sequences and views a project may have. Each is a file or more: a look at a database's size
-- goes through all of them, and with hundreds of thousands everything on the server slows down.
create function rowhouse.check_relations() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  most constant bigint := 100000;
begin
  -- Counted only where there can be so many: the catalog itself would be this large.
  if pg_relation_size('pg_class') > 16 * 1024 * 1024 and (select count(*) from pg_class) > most then
    raise exception 'a project can have % tables, indexes, sequences and views', most
      using errcode = 'program_limit_exceeded', hint = 'Drop some, or use another project.';
  end if;
end $$;

create event trigger rowhouse_relations on ddl_command_end
  when tag in ('CREATE TABLE', 'CREATE TABLE AS', 'SELECT INTO', 'CREATE INDEX', 'CREATE SEQUENCE', 'CREATE VIEW',
               'CREATE MATERIALIZED VIEW', 'CREATE SCHEMA')
  execute function rowhouse.check_relations();
