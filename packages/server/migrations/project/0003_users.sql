-- End users of the project's application. All of it belongs to the role p_<id>_auth, which signs users up and in and runs
-- nothing of the project's own; the project's role reads and deletes users and lets its tables refer to them. What nobody
-- else may see (hashes of passwords, tokens and codes) lies in tables of its own, so that `select * from auth.users` works.

-- In a database that a project lives in already, what follows is made by its owner; in the template, by us.
do $$
begin
  if current_database() ~ '^p_' then
    execute format('set local role %I', current_database() || '_auth');
  end if;
end $$;

create table auth.users (
  id uuid primary key default gen_random_uuid(),
  -- As it was typed.
  email text not null,
  -- What no two users share: normalised by the service, in one place (users/emails.ts).
  email_key text not null unique,
  role text not null default 'authenticated',
  data jsonb not null default '{}' check (jsonb_typeof(data) = 'object'),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  last_sign_in_at timestamptz,
  email_verified_at timestamptz,
  banned_at timestamptz
);
create index users_newest on auth.users (created_at desc, id desc);

create table auth.passwords (
  user_id uuid primary key references auth.users on delete cascade,
  hash text not null
);

-- A sign-in. It ends by its row's going, and with it every access token that names it.
create table auth.sessions (
  id uuid primary key,
  user_id uuid not null references auth.users on delete cascade,
  -- SHA-256 of the refresh token that is good now.
  token_hash bytea not null check (octet_length(token_hash) = 32),
  refreshed_at timestamptz not null default now(),
  expires_at timestamptz not null,
  created_at timestamptz not null default now()
) with (fillfactor = 80);
create index sessions_of_user on auth.sessions (user_id, created_at);

create table auth.codes (
  hash bytea primary key check (octet_length(hash) = 32),
  user_id uuid not null references auth.users on delete cascade,
  kind text not null check (kind in ('recovery', 'verification')),
  -- The address it was made for: a code does not verify another one.
  email_key text not null,
  expires_at timestamptz not null
);
create index codes_of_user on auth.codes (user_id, kind);

-- How much of a limit is used up: the time at which none of it is. A row says nothing once that is past.
create table auth.attempts (
  id bytea primary key,
  used_until timestamptz not null
) with (fillfactor = 80);
create index attempts_past on auth.attempts (used_until);

create table auth.settings (
  only_row boolean primary key default true check (only_row),
  refuse_common_passwords boolean not null default false
);
insert into auth.settings default values;

-- What policies ask. Their bodies are bound to these very functions and operators, whatever search_path says later.
create function auth.jwt() returns jsonb language sql stable parallel safe
  return nullif(current_setting('request.jwt.claims', true), '')::jsonb;
create function auth.uid() returns uuid language sql stable parallel safe
  return (nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub')::uuid;
create function auth.role() returns text language sql stable parallel safe
  return nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role';
create function auth.email() returns text language sql stable parallel safe
  return nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email';

-- The first statement of a transaction in which a user acts. Refuses a session that has ended; role and e-mail are what
-- they are now, not what they were when the token was made.
create function auth.act_as(session uuid, subject uuid, claims text) returns void
language plpgsql security definer
-- pg_temp named last: unnamed it comes first, and a type of that name there could bring code of the project's own.
set search_path = pg_catalog, pg_temp
as $$
declare
  found_email text;
  found_role text;
begin
  select users.email, users.role into found_email, found_role
  from auth.sessions join auth.users on users.id = sessions.user_id
  where sessions.id = session and users.id = subject and sessions.expires_at > now() and users.banned_at is null;
  if found_role is null then
    raise exception 'the session has ended' using errcode = 'RH002';
  end if;
  perform set_config('request.jwt.claims',
    (claims::jsonb || jsonb_build_object('email', found_email, 'role', found_role))::text, true);
end $$;

-- The tables stay closed.
grant usage on schema auth to public;

-- Called by the owner of what is granted, when a database is made and here.
create function auth.grant_users(project name) returns void language plpgsql set search_path = pg_catalog
as $$
begin
  execute format('grant select, delete, references (id) on auth.users to %I', project);
end $$;

do $$
begin
  if current_database() ~ '^p_' then
    perform auth.grant_users(current_database());
    set local role none;
  end if;
end $$;

create function rowhouse.hand_over_users(owner name) returns void language plpgsql set search_path = pg_catalog
as $$
declare
  object text;
begin
  execute format('alter schema auth owner to %I', owner);
  for object in
    select 'table ' || oid::regclass from pg_class where relnamespace = 'auth'::regnamespace and relkind = 'r'
    union all
    select 'function ' || oid::regprocedure from pg_proc where pronamespace = 'auth'::regnamespace
  loop
    execute format('alter %s owner to %I', object, owner);
  end loop;
end $$;

-- Called as the project's own role: what it makes in schema public can be reached by users, as row security allows.
create function rowhouse.open_to_users() returns void language plpgsql set search_path = pg_catalog
as $$
declare
  object record;
begin
  -- A project can do without it.
  if to_regnamespace('public') is null then
    return;
  end if;
  alter default privileges in schema public grant select, insert, update, delete on tables to authenticated;
  alter default privileges in schema public grant usage, select on sequences to authenticated;
  for object in
    select oid::regclass as name, relkind = 'S' as is_sequence from pg_class
    where relnamespace = to_regnamespace('public') and relkind in ('r', 'p', 'v', 'm', 'f', 'S') and relowner = current_user::regrole
  loop
    if object.is_sequence then
      execute format('grant usage, select on sequence %s to authenticated', object.name);
    else
      execute format('grant select, insert, update, delete on table %s to authenticated', object.name);
    end if;
  end loop;
end $$;

do $$
begin
  if current_database() ~ '^p_' then
    execute format('set local role %I', current_database());
    perform rowhouse.open_to_users();
    set local role none;
  end if;
end $$;

-- What row security has to say about a view is decided by what the view reads: itself, and all that is behind it but for
-- what is PostgreSQL's own.
create function rowhouse.reads(relation oid) returns setof oid
language plpgsql stable strict parallel safe rows 1
as $$
begin
  return query
    with recursive read (oid) as (
      select relation
      union
      select refobjid
      from read
      join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) read.oid and relkind operator(pg_catalog.=) 'v'
      join pg_catalog.pg_rewrite as rule on ev_class operator(pg_catalog.=) class.oid
      join pg_catalog.pg_depend on objid operator(pg_catalog.=) rule.oid
        and classid operator(pg_catalog.=) 'pg_catalog.pg_rewrite'::pg_catalog.regclass
        and refclassid operator(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
    )
    select read.oid from read where read.oid operator(pg_catalog.>=) 16384;
end $$;

-- As in 0002_tables.sql; of a view, also whether row security holds behind it.
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
