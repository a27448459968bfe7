-- Passkeys of people (WebAuthn).
create table passkeys (
  id text primary key,
  person_id text not null references people on delete cascade,
  credential_id bytea not null unique check (octet_length(credential_id) between 1 and 1023),
  -- As the authenticator gives it (COSE).
  public_key bytea not null,
  -- Of signatures. An authenticator that counts never goes back, unless it was cloned.
  counter bigint not null,
  transports text[] not null,
  -- Synchronized to other devices by whoever made the authenticator.
  is_backed_up boolean not null,
  name text not null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz
);
create index passkeys_of_person on passkeys (person_id, created_at);

-- Challenges carry their own proof and expiry. Those that were used are kept until then: each counts once, in all processes.
create table used_challenges (
  hash bytea primary key check (octet_length(hash) = 32),
  expires_at timestamptz not null
);
create index used_challenges_expiry on used_challenges (expires_at);
