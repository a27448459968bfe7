-- What the templates that this installation has had hold, so that a database which is older than the running version
-- can be told from one that a newer version has used. Templates of versions before this table are not in it.
create table templates (
  name text primary key,
  migrations integer not null,
  guards integer not null,
  created_at timestamptz not null default now()
);
