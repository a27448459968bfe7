-- What the tables of the database take up, as the transaction that asks sees them: without what goes away when it is
-- committed (dropped, truncated, rewritten), with what it has made. Ours, because it is compared with itself.
create function rowhouse.own_size() returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  -- By the files: pg_relation_size locks what it measures, and would wait for whoever has a table for himself.
  if has_function_privilege('pg_stat_file(text, boolean)', 'execute') then
    return sum(coalesce(first.size, 0) + coalesce(further.size, 0))
      from (select pg_relation_filepath(oid) as path from pg_class
            where relkind in ('r', 'i', 't', 'm', 'S') and not relisshared) as files
      cross join lateral (select (pg_stat_file(path, true)).size) as first (size)
      -- A file of 1 GB is followed by others.
      left join lateral (
        select sum((pg_stat_file(path || '.' || number, true)).size)
        from generate_series(1, (pg_database_size(current_database()) >> 30)::int) as number
      ) as further (size) on first.size >= 1 << 30;
  end if;
  return sum(pg_relation_size(oid)) from pg_class
    where relkind in ('r', 'i', 't', 'm', 'S') and not relisshared;
end $$;

-- The last statement before a commit that might take the project over its limit. It runs with our rights, because users
-- may not ask how large a database is; pg_temp is named last, so that nothing of the project's own is found before it.
--
-- ceiling: the size of the database on disk up to which anything goes, what others have not committed yet included.
-- allowance: of own_size(). Whoever makes the project no larger than it was can always go on. -1: was not asked for.
-- cap: on disk, for what adds something although the project is full: what others have not committed yet makes
--   own_size() larger, and must not become an allowance. -1: none.
-- deadline: until then nobody can have reached the ceiling, so there is nothing to measure.
create function rowhouse.check_size(ceiling bigint, allowance bigint, cap bigint, deadline double precision) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  size bigint;
begin
  -- Without a number of its own the transaction has written nothing.
  if pg_current_xact_id_if_assigned() is null or extract(epoch from clock_timestamp()) < deadline then
    return;
  end if;
  size := pg_database_size(current_database());
  if size <= ceiling then
    return;
  end if;
  -- Whoever tidies up afterwards has to know which tables it was, whether this is committed or not.
  perform pg_stat_force_next_flush();
  if allowance >= 0 and (cap < 0 or size <= cap) and rowhouse.own_size() <= allowance then
    return;
  end if;
  raise exception 'the project is full' using errcode = 'RH507', detail = size::text;
end $$;
