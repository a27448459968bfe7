-- Which account keys the start of the service may replace, and which it may set again.
alter table keys
  -- Made by the start, or named by ROWHOUSE_ACCOUNT_KEY.
  add column is_of_start boolean not null default false,
  -- Revoked by a later start, not by somebody: it can be set again.
  add column is_replaced boolean not null default false;
update keys set is_of_start = true where kind = 'account' and account_id = 'default' and name = 'account key';
