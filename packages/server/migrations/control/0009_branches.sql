-- Projects whose requests wait for a moment, while their database is copied or exchanged for another one. Every process
-- reads this table together with the changes. A row that is no longer renewed ends by itself: its process has died.
-- Unlogged: it says nothing after a crash, and setting a hold does not wait for the disk.
create unlogged table holds (
  project_id text primary key,
  -- Which operation the row belongs to.
  holder uuid not null,
  -- false: announced. Processes read more often from then on, so that all of them hold and continue at the same time.
  is_closed boolean not null,
  expires_at timestamptz not null
);

-- An exchange of the databases of two projects that has begun. Renaming them and recording the result are two
-- transactions, on two servers at times: the object ids tell whether the first one has taken place.
create table swaps (
  project_id text primary key,
  other_id text not null,
  kind text not null check (kind in ('reset', 'promote')),
  project_oid oid not null,
  other_oid oid not null,
  -- Of the copy that a reset puts in place. null: a promotion, which exchanges those of two projects.
  template text,
  empty_bytes bigint,
  size_bytes bigint,
  created_at timestamptz not null default now()
);
