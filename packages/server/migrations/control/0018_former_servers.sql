-- Where a project was before a move. A restore to an earlier time reads the backups of that server, which may be gone.
create table former_servers (
  project_id text not null references projects (id) on delete cascade,
  -- Of PostgreSQL. The backups of the server are stored under it.
  system_identifier text not null,
  until timestamptz not null,
  primary key (project_id, until)
);
