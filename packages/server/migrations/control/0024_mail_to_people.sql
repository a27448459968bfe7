-- Mail to people: which addresses are proved, and which links were only mailed, so that whoever has one can read the address.
alter table people
  -- null: nobody has proved yet to read mail to the address.
  add column email_proved_at timestamptz;
alter table invitations add column is_mailed boolean not null default false;
alter table person_codes
  add column is_mailed boolean not null default false,
  -- The operator decided that a lost second factor goes with the old password.
  add column resets_factor boolean not null default false;
