-- Sessions of the console. A session has two halves, a cookie and a token, of which only hashes are stored. It has the
-- rights of its key, which every request reads again.
create table console_sessions (
  id text primary key,
  account_id text not null references accounts on delete cascade,
  key_id text references keys on delete cascade,
  -- The person who signed in. null: the holder of a key, or of the link that the start prints.
  person_id text,
  cookie_hash bytea not null unique check (octet_length(cookie_hash) = 32),
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  -- For the owner, to recognize a session in the list.
  address text not null,
  user_agent text,
  created_at timestamptz not null,
  seen_at timestamptz not null,
  expires_at timestamptz not null,
  -- Until then, the session may read keys and connection strings.
  confirmed_until timestamptz not null,
  check (key_id is not null or person_id is not null)
);
create index console_sessions_of_key on console_sessions (key_id, seen_at);
create index console_sessions_expiry on console_sessions (expires_at);

-- Links that sign in once. Only hashes are stored.
create table console_links (
  hash bytea primary key check (octet_length(hash) = 32),
  key_id text not null references keys on delete cascade,
  expires_at timestamptz not null
);
