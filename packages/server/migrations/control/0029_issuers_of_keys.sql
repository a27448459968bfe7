-- Who issued a key, so that a person who leaves an account leaves no key behind unnoticed.
alter table keys
  -- The person who was signed in, or who issued the key that was used. null: nobody, or before this was recorded.
  add column issued_by text references people on delete set null;
create index keys_issued_by on keys (issued_by, account_id) where issued_by is not null;
