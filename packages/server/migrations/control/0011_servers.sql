-- Further PostgreSQL servers on which project databases live. The first server is the one of the control database; its
-- address comes from the settings of the service, and its row has none.
alter table servers
  add column hosts text[] not null default '{}',
  -- The connection string, under the master key: it contains a password.
  add column address bytea,
  add column state text not null default 'active' check (state in ('active', 'draining', 'removing')),
  add column labels text[] not null default '{}',
  -- null: not limited, or not known.
  add column capacity_mb bigint check (capacity_mb >= 1),
  add column capacity_connections integer check (capacity_connections >= 1),
  -- Tells two addresses of the same server from two servers.
  add column system_identifier text,
  -- As last counted by the background work, so that placing a project does not read all projects.
  add column projects_count integer not null default 0,
  add column used_bytes bigint not null default 0;

create index projects_of_server on projects (server_id);

-- A server was added, changed or removed.
alter table changes add column server_id integer;
