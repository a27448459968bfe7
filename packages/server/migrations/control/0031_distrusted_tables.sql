-- Tables whose inserts once added more than their bound (query/distrusted-tables.ts). `relation` is the oid in the project's database.
create table distrusted_tables (
  project_id text not null references projects on delete cascade,
  relation oid not null,
  found_at timestamptz not null default now(),
  primary key (project_id, relation)
);
