-- The version of a table is the same set of facts as in 0007, asked differently. The first statement in a new session has to
-- plan every query it reaches, and that took longer than all else that the first request of an idle project does. So what
-- most tables do not have is asked only where the catalog says that they have it.
create or replace function rowhouse.version_of(relation oid) returns text
language plpgsql stable strict parallel safe
as $$
declare
  facts pg_catalog.text;
  is_view pg_catalog.bool;
  has_defaults pg_catalog.bool;
  has_own_types pg_catalog.bool;
  has_triggers pg_catalog.bool;
  has_rules pg_catalog.bool;
begin
  select pg_catalog.concat_ws('.', 'c', nspname, relname, relkind, relrowsecurity, relforcerowsecurity, relhasrules,
                              relhassubclass, relispartition, relacl, attributes.described,
      (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'k', oid, xmin), ' ' order by oid)
       from pg_catalog.pg_constraint where conrelid operator(pg_catalog.=) relation),
      (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'i', indexrelid, xmin), ' ' order by indexrelid)
       from pg_catalog.pg_index where indrelid operator(pg_catalog.=) relation),
      (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 's', oid, xmin), ' ' order by oid)
       from pg_catalog.pg_statistic_ext where stxrelid operator(pg_catalog.=) relation),
      (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'p', oid, xmin), ' ' order by oid)
       from pg_catalog.pg_policy where polrelid operator(pg_catalog.=) relation)),
    relkind operator(pg_catalog.=) 'v', relhastriggers, relhasrules, with_default, own_type
  into facts, is_view, has_triggers, has_rules, has_defaults, has_own_types
  from pg_catalog.pg_class as class
  join pg_catalog.pg_namespace as namespace on namespace.oid operator(pg_catalog.=) relnamespace
  cross join (
    select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'a', attnum, xmin), ' ' order by attnum),
      pg_catalog.bool_or(atthasdef), pg_catalog.bool_or(atttypid operator(pg_catalog.>=) 16384)
    from pg_catalog.pg_attribute
    where attrelid operator(pg_catalog.=) relation and attnum operator(pg_catalog.>) 0 and not attisdropped
  ) as attributes (described, with_default, own_type)
  where class.oid operator(pg_catalog.=) relation;
  if facts is null then
    return null;
  end if;
  if has_defaults then
    facts := pg_catalog.concat_ws(' ', facts, (
      select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'd', oid, xmin), ' ' order by oid)
      from pg_catalog.pg_attrdef where adrelid operator(pg_catalog.=) relation));
  end if;
  -- A foreign key that points here has its triggers here.
  if has_triggers then
    facts := pg_catalog.concat_ws(' ', facts, (
      select pg_catalog.string_agg(pg_catalog.concat_ws('.', 't', oid, xmin), ' ' order by oid)
      from pg_catalog.pg_trigger where tgrelid operator(pg_catalog.=) relation));
  end if;
  if has_rules then
    facts := pg_catalog.concat_ws(' ', facts, (
      select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'r', oid, xmin), ' ' order by oid)
      from pg_catalog.pg_rewrite where ev_class operator(pg_catalog.=) relation));
  end if;
  if is_view then
    facts := pg_catalog.concat_ws(' ', facts, (
      select pg_catalog.string_agg(
        pg_catalog.concat_ws('.', 'b', behind.oid, behind.relkind, behind.relrowsecurity, behind.reloptions), ' '
        order by behind.oid)
      from rowhouse.reads(relation) as read (oid)
      join pg_catalog.pg_class as behind on behind.oid operator(pg_catalog.=) read.oid));
  end if;
  -- Types of PostgreSQL's own stay what they are.
  if has_own_types then
    facts := pg_catalog.concat_ws(' ', facts, (
      select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'y', attnum, type.xmin, (
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
        )), ' ' order by attnum)
      from pg_catalog.pg_attribute
      join pg_catalog.pg_type as type on type.oid operator(pg_catalog.=) atttypid
      where attrelid operator(pg_catalog.=) relation and attnum operator(pg_catalog.>) 0 and not attisdropped
        and atttypid operator(pg_catalog.>=) 16384));
  end if;
  return pg_catalog.md5(facts);
end $$;
