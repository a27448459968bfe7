-- Tokens with which the holder of a key that may manage a project acts as one of its end users, and the record of them. Only
-- hashes are stored.
create table acting_tokens (
  -- Also the id of the session in the project's database.
  id uuid primary key,
  hash bytea not null unique check (octet_length(hash) = 32),
  project_id text not null references projects on delete cascade,
  -- The token is valid with this key only. No reference: the record outlives the key.
  key_id text not null,
  -- null: anonymous.
  user_id uuid,
  -- As it was then.
  user_email text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  used_at timestamptz,
  ended_at timestamptz
);
create index acting_tokens_of_project on acting_tokens (project_id, created_at desc, id);
create index acting_tokens_age on acting_tokens (created_at);

-- Statements that people keep: under a name, or as the draft of a tab. They belong to the account that owns the project.
create table saved_queries (
  id text primary key,
  project_id text not null references projects on delete cascade,
  kind text not null check (kind in ('saved', 'draft')),
  name text not null,
  query text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index saved_queries_of_project on saved_queries (project_id, kind, name, id);

-- Statements that ran, if their caller asked for a record.
create table query_history (
  project_id text not null references projects on delete cascade,
  id text not null,
  key_id text not null,
  query text not null,
  at timestamptz not null default now(),
  duration_ms double precision,
  row_count bigint,
  -- The code of the error; null: it succeeded.
  error text,
  primary key (project_id, id)
);
create index query_history_newest on query_history (project_id, at desc, id);
create index query_history_age on query_history (at);
