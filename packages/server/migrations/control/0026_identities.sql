-- Who people are at another provider (OpenID Connect): found by the provider's own id of them, never again by their address.
create table person_identities (
  issuer text not null,
  subject text not null,
  person_id text not null references people on delete cascade,
  created_at timestamptz not null default now(),
  last_used_at timestamptz,
  primary key (issuer, subject)
);
create index person_identities_of_person on person_identities (person_id);
