-- The casts and operators of a column's type belong to what a table is: a project can give an enum some of its own, and a
-- statement that was compiled before must not be taken for what it was. As in 0003, with these in the part for types.
create or replace function rowhouse.version_of(relation oid) returns text
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
      select pg_catalog.concat_ws('.', 'b', behind.oid, behind.relkind, behind.relrowsecurity, behind.reloptions)
      from pg_catalog.pg_class as class
      cross join lateral rowhouse.reads(class.oid) as read (oid)
      join pg_catalog.pg_class as behind on behind.oid operator(pg_catalog.=) read.oid
      where class.oid operator(pg_catalog.=) relation and class.relkind operator(pg_catalog.=) 'v'
      union all
      -- Types of PostgreSQL's own stay what they are.
      select pg_catalog.concat_ws('.', 'a', attnum, xmin,
        case when atttypid operator(pg_catalog.>=) 16384 then (
          select pg_catalog.concat_ws('.', type.xmin, (
            select pg_catalog.string_agg(pg_catalog.concat_ws('.', oid, xmin), ' ' order by oid)
            from pg_catalog.pg_constraint where contypid operator(pg_catalog.=) type.oid
          ), (
            select pg_catalog.string_agg(pg_catalog.concat_ws('.', oid, xmin), ' ' order by oid)
            from pg_catalog.pg_cast
            where castsource operator(pg_catalog.=) any (array[type.oid, type.typelem])
              or casttarget operator(pg_catalog.=) any (array[type.oid, type.typelem])
          ), (
            select pg_catalog.string_agg(pg_catalog.concat_ws('.', oid, xmin), ' ' order by oid)
            from pg_catalog.pg_operator
            where oid operator(pg_catalog.>=) 16384 and (
              oprleft operator(pg_catalog.=) any (array[type.oid, type.typelem])
              or oprright operator(pg_catalog.=) any (array[type.oid, type.typelem]))
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
