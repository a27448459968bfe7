-- Requests that came with an Idempotency-Key: who runs one now, and what it was answered with. Kept for a day.
create table repeats (
  -- SHA-256 of the caller, the path and the key.
  id bytea primary key check (octet_length(id) = 32),
  -- Without a reference: each insert would lock the account's row, and rows go by themselves after a day.
  account_id text not null,
  -- By a publishable key, which anybody may hold.
  is_public boolean not null,
  -- running: reserved; as long as alive_until is ahead the process that runs it lives.
  -- kept: answered, and the answer is here. not_kept: answered, and the answer was too large.
  -- unknown: nobody can say whether it took effect.
  state text not null default 'running' check (state in ('running', 'kept', 'not_kept', 'unknown')),
  -- Which attempt the row belongs to: what a slower one says later does not count.
  holder uuid not null,
  alive_until timestamptz not null,
  -- SHA-256 of the query string and the body. Null until a streamed body has been read to its end.
  fingerprint bytea check (octet_length(fingerprint) = 32),
  status smallint,
  content_type text,
  location text,
  -- Under the master key: answers hold API keys and tokens.
  answer bytea,
  expires_at timestamptz not null,
  check ((state = 'kept') = (answer is not null)),
  check (state <> 'kept' or (status is not null and fingerprint is not null))
) with (fillfactor = 70);
-- Sealed bytes cannot be made smaller.
alter table repeats alter column answer set storage external;
create index repeats_of_account on repeats (account_id);
create index repeats_expired on repeats (expires_at);
