-- Long work that a request starts and does not wait for: imports, branches, restores, backups.
create table jobs (
  id text primary key,
  kind text not null,
  account_id text not null references accounts on delete cascade,
  -- The project that the job fills or works on. No reference: the row of the job stays when the project is gone.
  project_id text,
  status text not null default 'running' check (status in ('running', 'done', 'failed', 'cancelled')),
  progress real not null default 0 check (progress between 0 and 1),
  -- While this is in the future, the process that runs the job is alive.
  alive_until timestamptz not null,
  is_cancel_requested boolean not null default false,
  started_at timestamptz not null default now(),
  ended_at timestamptz,
  error jsonb,
  result jsonb,
  check ((status = 'running') = (ended_at is null)),
  check (status in ('failed', 'cancelled') or error is null),
  check (status = 'done' or result is null)
) with (fillfactor = 70);
create index jobs_running on jobs (alive_until) where status = 'running';
create index jobs_ended on jobs (ended_at) where ended_at is not null;

alter table projects
  -- The job that fills the project. Until it is done, the project cannot be used; if it fails, the project is dropped.
  add column filled_by text,
  -- The project of which this one is a branch. No reference: a branch outlives its parent.
  add column parent_id text,
  -- The background work deletes the project after this time.
  add column expires_at timestamptz;
create index projects_filled on projects (filled_by) where filled_by is not null;
create index projects_of_parent on projects (parent_id) where parent_id is not null;
create index projects_expiring on projects (expires_at) where expires_at is not null and deleted_at is null;
