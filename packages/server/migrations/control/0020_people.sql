-- People who sign in to the console, and the accounts that they belong to.
create table people (
  id text primary key,
  email text not null,
  -- Its normal form: two spellings of one address are one person.
  email_key text not null unique,
  -- null: signs in by a passkey or by another provider.
  password_hash text,
  created_at timestamptz not null default now(),
  last_sign_in_at timestamptz
);

create table members (
  account_id text not null references accounts on delete cascade,
  person_id text not null references people on delete cascade,
  role text not null check (role in ('owner', 'admin', 'developer', 'viewer')),
  -- Ids of the projects that the member sees. null: all of the account.
  projects text[],
  created_at timestamptz not null default now(),
  primary key (account_id, person_id),
  check (projects is null or role in ('developer', 'viewer'))
);
create index members_of_person on members (person_id);

-- Links that make a person a member, once. Only hashes are stored.
create table invitations (
  id text primary key,
  account_id text not null references accounts on delete cascade,
  email text not null,
  email_key text not null,
  role text not null check (role in ('owner', 'admin', 'developer', 'viewer')),
  projects text[],
  hash bytea not null unique check (octet_length(hash) = 32),
  invited_by text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
create index invitations_of_account on invitations (account_id, created_at);
create index invitations_expiry on invitations (expires_at);

-- Codes that prove the control of an address: for a new password, or for a new address. Only hashes are stored.
create table person_codes (
  hash bytea primary key check (octet_length(hash) = 32),
  person_id text not null references people on delete cascade,
  kind text not null check (kind in ('recovery', 'email')),
  -- The new address.
  email text,
  email_key text,
  expires_at timestamptz not null,
  check ((kind = 'email') = (email is not null)),
  check ((email is null) = (email_key is null))
);
create index person_codes_of_person on person_codes (person_id, kind);
create index person_codes_expiry on person_codes (expires_at);

-- Failed attempts to sign in, as buckets: when all attempts of a bucket are available again.
create table sign_in_attempts (
  id bytea primary key check (octet_length(id) = 32),
  used_until timestamptz not null
);
create index sign_in_attempts_age on sign_in_attempts (used_until);

delete from console_sessions where person_id is not null;
alter table console_sessions
  add foreign key (person_id) references people on delete cascade,
  -- The person proved a second factor at the sign-in.
  add column has_second_factor boolean not null default false;
create index console_sessions_of_person on console_sessions (person_id, seen_at) where person_id is not null;
