-- Moments with a name, to which a project can be restored as long as the backups reach back that far.
create table snapshots (
  project_id text not null references projects on delete cascade,
  name text not null,
  at timestamptz not null,
  primary key (project_id, name)
);
