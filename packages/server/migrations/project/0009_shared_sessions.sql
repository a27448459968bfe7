-- Statements of end users follow one another in sessions that they share: each is preceded, in the same transaction, by a call
-- that says who acts. So that call has to be cheap, and whether a statement runs code of the project's has to be known.

-- In a database that a project lives in already, the function belongs to the role that owns users; in the template, to us.
do $$
begin
  if current_database() ~ '^p_' then
    execute format('set local role %I', current_database() || '_auth');
  end if;
end $$;

-- As auth.act_as in 0003, in one query. The claims are used as they are if the address and the role in the token are still
-- those of the user, which is nearly always so: parsing and writing them anew costs as much as looking the session up.
create function auth.act_as(session uuid, subject uuid, claims text, token_email text, token_role text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform set_config('request.jwt.claims',
    case when users.email = token_email and users.role = token_role then claims
         else (claims::jsonb || jsonb_build_object('email', users.email, 'role', users.role))::text end, true)
  from auth.sessions join auth.users on users.id = sessions.user_id
  where sessions.id = session and users.id = subject and sessions.expires_at > now() and users.banned_at is null;
  if not found then
    raise exception 'the session has ended' using errcode = 'RH002';
  end if;
end $$;

do $$
begin
  if current_database() ~ '^p_' then
    set local role none;
  end if;
end $$;

-- The relations that PostgreSQL reads for a statement that names this one: those in its view's query, in its policies, and
-- its children; and what is behind those. What PostgreSQL itself brings is not among them.
create function rowhouse.behind(relation oid) returns setof oid
language plpgsql stable strict parallel safe rows 4
as $$
begin
  return query
    with recursive found (oid) as (
      select relation
      union
      select next.oid
      from found
      cross join lateral (
        select refobjid
        from pg_catalog.pg_rewrite as rule
        join pg_catalog.pg_depend on objid operator(pg_catalog.=) rule.oid
          and classid operator(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass
          and refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        where ev_class operator(pg_catalog.=) found.oid
        union all
        select refobjid
        from pg_catalog.pg_policy as policy
        join pg_catalog.pg_depend on objid operator(pg_catalog.=) policy.oid
          and classid operator(pg_catalog.=) 'pg_catalog.pg_policy'::pg_catalog.regclass
          and refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
        where polrelid operator(pg_catalog.=) found.oid
        union all
        select inhrelid from pg_catalog.pg_inherits where inhparent operator(pg_catalog.=) found.oid
      ) as next (oid)
    )
    select found.oid from found
    where found.oid operator(pg_catalog.>=) 16384 and found.oid operator(pg_catalog.<>) relation;
end $$;

-- As in 0008, with the owner, who is exempt from policies, and with what is behind the table: a statement on it that is known
-- to run no code of the project's is planned anew when that changes, and has to notice.
create or replace function rowhouse.version_of(relation oid) returns text
language plpgsql stable strict parallel safe
as $$
declare
  facts pg_catalog.text;
  has_behind pg_catalog.bool;
  has_defaults pg_catalog.bool;
  has_own_types pg_catalog.bool;
  has_triggers pg_catalog.bool;
  has_rules pg_catalog.bool;
begin
  select pg_catalog.concat_ws('.', 'c', nspname, relname, relkind, relrowsecurity, relforcerowsecurity, relhasrules,
                              relhassubclass, relispartition, relowner, relacl,
                              case when relkind operator(pg_catalog.=) 'v' then reloptions end, attributes.described,
      (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'k', oid, xmin), ' ' order by oid)
       from pg_catalog.pg_constraint where conrelid operator(pg_catalog.=) relation),
      (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'i', indexrelid, xmin), ' ' order by indexrelid)
       from pg_catalog.pg_index where indrelid operator(pg_catalog.=) relation),
      (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 's', oid, xmin), ' ' order by oid)
       from pg_catalog.pg_statistic_ext where stxrelid operator(pg_catalog.=) relation),
      (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'p', oid, xmin), ' ' order by oid)
       from pg_catalog.pg_policy where polrelid operator(pg_catalog.=) relation)),
    relkind operator(pg_catalog.=) 'v' or relrowsecurity or relhassubclass, relhastriggers, relhasrules, with_default, own_type
  into facts, has_behind, has_triggers, has_rules, has_defaults, has_own_types
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
  if has_behind then
    facts := pg_catalog.concat_ws(' ', facts, rowhouse.facts_of(array(select rowhouse.behind(relation))));
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

-- The part of a version that is about what is behind a table: all that can make a statement on it run code of the project's.
create function rowhouse.facts_of(relations oid[]) returns text
language plpgsql stable strict parallel safe
as $$
begin
  if relations operator(pg_catalog.=) '{}'::pg_catalog.oid[] then
    return null;
  end if;
  return pg_catalog.concat_ws(' ',
    (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'b', oid, relkind, relowner, relrowsecurity, relforcerowsecurity,
                                                       relhasrules, relhassubclass, relam, reloptions), ' ' order by oid)
     from pg_catalog.pg_class where oid operator(pg_catalog.=) any (relations)),
    (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'ba', attrelid, attnum, pg_attribute.xmin, type.xmin), ' ' order by attrelid, attnum)
     from pg_catalog.pg_attribute
     left join pg_catalog.pg_type as type on type.oid operator(pg_catalog.=) atttypid and type.oid operator(pg_catalog.>=) 16384
     where attrelid operator(pg_catalog.=) any (relations) and attnum operator(pg_catalog.>) 0 and not attisdropped
       and (atttypid operator(pg_catalog.>=) 16384 or attcollation operator(pg_catalog.>=) 16384 or attgenerated operator(pg_catalog.<>) '')),
    (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'bk', oid, xmin), ' ' order by oid)
     from pg_catalog.pg_constraint where conrelid operator(pg_catalog.=) any (relations)),
    (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'bi', indexrelid, xmin), ' ' order by indexrelid)
     from pg_catalog.pg_index where indrelid operator(pg_catalog.=) any (relations)),
    (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'bp', oid, xmin), ' ' order by oid)
     from pg_catalog.pg_policy where polrelid operator(pg_catalog.=) any (relations)),
    (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'br', oid, xmin), ' ' order by oid)
     from pg_catalog.pg_rewrite where ev_class operator(pg_catalog.=) any (relations)),
    (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'bt', oid, xmin), ' ' order by oid)
     from pg_catalog.pg_trigger where tgrelid operator(pg_catalog.=) any (relations)),
    (select pg_catalog.string_agg(pg_catalog.concat_ws('.', 'bs', oid, xmin), ' ' order by oid)
     from pg_catalog.pg_statistic_ext where stxrelid operator(pg_catalog.=) any (relations)));
end $$;
