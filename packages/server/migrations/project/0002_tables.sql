-- How a statement that was compiled for a table notices that the table is another one now.
--
-- Such a statement holds `rowhouse.is_unchanged(<oid>, '<version>')` in its WHERE. The planner works that out once and
-- leaves no trace of it in the plan, so running the statement again costs nothing. Whatever changes a table makes
-- PostgreSQL plan anew, and then the call fails before anything has run.
--
-- They run as the caller and read what every role can read. Names are qualified, because search_path is the project's
-- own business; setting it on the functions would cost more than they do.

-- The rows of the catalog that say what a table is, each with the transaction that wrote it. `stable`: it sees what the
-- statement around it sees, so that a description read by the same statement belongs to it.
create function rowhouse.version_of(relation oid) returns text
language plpgsql stable strict parallel safe
as $$
begin
  return (
    select pg_catalog.md5(pg_catalog.string_agg(facts.fact, ' ' order by facts.fact))
    from (
      select pg_catalog.concat_ws('.', 'c', nspname, relname, relkind, relrowsecurity, relforcerowsecurity, relhasrules,
                                  relhassubclass, relispartition, relacl)
      from pg_catalog.pg_class as class
      join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) relnamespace
      where class.oid operator(pg_catalog.=) relation
      union all
      -- Types of PostgreSQL's own stay what they are.
      select pg_catalog.concat_ws('.', 'a', attnum, xmin,
        case when atttypid operator(pg_catalog.>=) 16384 then (
          select pg_catalog.concat_ws('.', type.xmin, (
            select pg_catalog.string_agg(pg_catalog.concat_ws('.', oid, xmin), ' ' order by oid)
            from pg_catalog.pg_constraint where contypid operator(pg_catalog.=) type.oid
          ))
          from pg_catalog.pg_type as type where type.oid operator(pg_catalog.=) atttypid
        ) end)
      from pg_catalog.pg_attribute
      where attrelid operator(pg_catalog.=) relation and attnum operator(pg_catalog.>) 0 and not attisdropped
      union all
      select pg_catalog.concat_ws('.', 'd', oid, xmin)
      from pg_catalog.pg_attrdef where adrelid operator(pg_catalog.=) relation
      union all
      select pg_catalog.concat_ws('.', 'k', oid, xmin)
      from pg_catalog.pg_constraint where conrelid operator(pg_catalog.=) relation
      union all
      select pg_catalog.concat_ws('.', 'i', indexrelid, xmin)
      from pg_catalog.pg_index where indrelid operator(pg_catalog.=) relation
      union all
      -- A foreign key that points here has its triggers here.
      select pg_catalog.concat_ws('.', 't', oid, xmin)
      from pg_catalog.pg_trigger where tgrelid operator(pg_catalog.=) relation
      union all
      select pg_catalog.concat_ws('.', 'r', oid, xmin)
      from pg_catalog.pg_rewrite where ev_class operator(pg_catalog.=) relation
      union all
      select pg_catalog.concat_ws('.', 'p', oid, xmin)
      from pg_catalog.pg_policy where polrelid operator(pg_catalog.=) relation
      union all
      select pg_catalog.concat_ws('.', 's', oid, xmin)
      from pg_catalog.pg_statistic_ext where stxrelid operator(pg_catalog.=) relation
    ) as facts (fact)
  );
end $$;

-- `volatile`: it looks anew. A statement that waited for a lock began before the change it waited for.
create function rowhouse.version_now(relation oid) returns text
language plpgsql volatile strict parallel safe
as $$
begin
  return rowhouse.version_of(relation);
end $$;

-- `immutable` is not true, and is the point: it makes the planner do the call.
create function rowhouse.is_unchanged(relation oid, version text) returns boolean
language plpgsql immutable strict parallel safe
as $$
begin
  if rowhouse.version_now(relation) operator(pg_catalog.=) version then
    return true;
  end if;
  raise exception 'the table has changed' using errcode = 'RH001';
end $$;

-- For what can change without PostgreSQL's planning anew: the attributes of a composite type. `stable`: asked each time.
create function rowhouse.is_unchanged_now(relation oid, version text) returns boolean
language plpgsql stable strict parallel safe
as $$
begin
  return rowhouse.is_unchanged(relation, version);
end $$;

-- The schema's tables stay closed.
grant usage on schema rowhouse to public;
