-- The second factor of people: codes of an authenticator app (TOTP), and codes for when it is lost.
alter table people
  -- Sealed with the master key.
  add column totp_sealed bytea,
  -- null: it was begun, and no code has proved it yet.
  add column totp_confirmed_at timestamptz,
  -- The time step of the last code that was accepted: a code counts once.
  add column totp_last_step bigint not null default 0,
  add check (totp_confirmed_at is null or totp_sealed is not null);

create table recovery_codes (
  person_id text not null references people on delete cascade,
  hash bytea not null check (octet_length(hash) = 32),
  primary key (person_id, hash)
);
