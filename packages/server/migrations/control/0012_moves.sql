-- Projects on their way to another server. projects.server_id says which copy counts; it changes in the transaction that
-- sets the state to 'switched'. Each state has one next step, which can be repeated: see src/moves/README.md.
create table moves (
  -- No reference: the row must outlive a project that is deleted meanwhile, until both servers are tidied up.
  project_id text primary key,
  job_id text not null,
  from_server integer not null references servers,
  to_server integer not null references servers,
  -- The spare on the target that is filled. It gets the name of the project at the end.
  copy_id text not null,
  state text not null default 'copying' check (state in ('copying', 'undoing', 'reopened', 'switched', 'opened')),
  created_at timestamptz not null default now()
);
create index moves_of_job on moves (job_id);
