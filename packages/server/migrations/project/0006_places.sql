-- Networks from which a user has signed in, so that strangers who guess at a password do not keep its owner out there.
-- Kept as hashes; written and read by the service alone, like the rest of the schema (0003_users.sql).
do $$
begin
  if current_database() ~ '^p_' then
    execute format('set local role %I', current_database() || '_auth');
  end if;
end $$;

create table auth.places (
  user_id uuid not null references auth.users on delete cascade,
  network bytea not null check (octet_length(network) = 32),
  seen_at timestamptz not null default now(),
  primary key (user_id, network)
) with (fillfactor = 80);

do $$
begin
  if current_database() ~ '^p_' then
    set local role none;
  end if;
end $$;
