-- The service's own tables. Project databases hold none of this.

create table settings (
  name text primary key,
  value text not null
);

-- PostgreSQL servers on which project databases live.
create table servers (
  id integer generated always as identity primary key,
  name text not null unique,
  created_at timestamptz not null default now()
);

create table accounts (
  id text primary key,
  name text not null unique,
  created_at timestamptz not null default now()
);

-- A database that is being made, stands ready to become a project, or is being thrown away unused.
-- The row is committed before the database exists, so whatever a crash leaves behind is known here.
create table spares (
  id text primary key,
  server_id integer not null references servers,
  state text not null check (state in ('making', 'ready', 'dropping')),
  template text not null,
  empty_bytes bigint,
  created_at timestamptz not null default now(),
  check (state <> 'ready' or empty_bytes is not null)
);
create index spares_ready on spares (server_id, created_at) where state = 'ready';

-- A project's id is that of its database (p_<id>) and roles (p_<id>, p_<id>_auth).
create table projects (
  id text primary key,
  account_id text not null references accounts,
  server_id integer not null references servers,
  slug text not null unique,
  name text not null,
  limit_mb integer not null check (limit_mb >= 1),
  template text not null,
  empty_bytes bigint not null,
  size_bytes bigint not null default 0,
  created_at timestamptz not null default now(),
  deleted_at timestamptz
);
create index projects_live on projects (account_id, created_at desc, id desc) where deleted_at is null;
create index projects_deleted on projects (deleted_at) where deleted_at is not null;

create table keys (
  id text primary key,
  kind text not null check (kind in ('account', 'project', 'scoped', 'publishable')),
  account_id text not null references accounts,
  project_id text references projects on delete cascade,
  name text not null,
  start text not null,
  hash bytea not null unique check (octet_length(hash) = 32),
  -- The key itself under the master key: only project keys, which also sign users' tokens.
  sealed bytea,
  scopes text[] not null,
  tables text[],
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  rotated_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  check ((kind = 'account') = (project_id is null)),
  check ((kind = 'project') = (sealed is not null))
);
create index keys_of_project on keys (project_id, created_at);
create unique index keys_current on keys (project_id)
  where kind = 'project' and rotated_at is null and revoked_at is null;

-- What processes that hold a key or a project in memory must look at again. Ordered by transaction, because numbers
-- from a sequence can become visible out of order.
create table changes (
  xid xid8 not null default pg_current_xact_id(),
  project_id text,
  key_id text,
  at timestamptz not null default now()
);
create index changes_xid on changes (xid);
