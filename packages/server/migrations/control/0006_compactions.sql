-- The last compaction of each project, for whoever asks, in whichever process and after a restart.
create table compactions (
  project_id text primary key references projects on delete cascade,
  -- Which run the row belongs to: what an earlier one says later does not count.
  run uuid not null,
  status text not null check (status in ('running', 'done', 'failed', 'stopped')),
  -- As long as this is ahead, the process that runs it lives.
  alive_until timestamptz not null,
  started_at timestamptz not null default now(),
  finished_at timestamptz,
  tables_total integer not null default 0,
  tables_done integer not null default 0,
  current text,
  bytes_before bigint not null,
  bytes bigint not null,
  -- The first of them; skipped_count has all.
  skipped jsonb not null default '[]',
  skipped_count integer not null default 0,
  error text,
  check ((status = 'running') = (finished_at is null))
) with (fillfactor = 50);
