-- Accounts of customers and teams, their limits, and keys of the operator.
alter table accounts
  -- null: no limit.
  add column max_projects integer check (max_projects >= 0),
  add column max_total_mb bigint check (max_total_mb >= 0),
  add column max_requests_per_second integer check (max_requests_per_second > 0),
  -- Its owners and admins may also do what an operator may: what existed before there were several accounts goes on working.
  add column is_operator boolean not null default false,
  add column requires_second_factor boolean not null default false,
  -- Why it is suspended. null: it is not.
  add column suspended_because text,
  add column suspended_at timestamptz,
  add column deleted_at timestamptz,
  add check ((suspended_at is null) = (suspended_because is null));
update accounts set is_operator = true where id = 'default';
create index accounts_deleted on accounts (deleted_at) where deleted_at is not null;

alter table changes add column account_id text;

alter table keys drop constraint keys_kind_check;
alter table keys add constraint keys_kind_check
  check (kind in ('account', 'project', 'scoped', 'publishable', 'operator'));
alter table keys drop constraint keys_check;
alter table keys add constraint keys_check check ((kind in ('account', 'operator')) = (project_id is null));
alter table keys alter column account_id drop not null;
alter table keys add check ((kind = 'operator') = (account_id is null));
-- Of an account key.
alter table keys add column role text check (role in ('owner', 'admin', 'developer', 'viewer'));
update keys set role = 'owner' where kind = 'account';
alter table keys add check ((kind = 'account') = (role is not null));

-- null: the operator started it.
alter table jobs alter column account_id drop not null;
