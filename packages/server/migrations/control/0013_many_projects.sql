-- The background work looks every two seconds for a few projects of each server: those with an older schema, and those over
-- their limit. With these indexes it reads nothing of the others.
create index projects_of_template on projects (server_id, template) where deleted_at is null;
create index projects_at_limit on projects (server_id)
  where deleted_at is null and size_bytes - empty_bytes >= limit_mb * bigint '1048576';
drop index projects_over_limit;

-- Keys that have ended are deleted after some time. Most keys never end.
create index keys_ended on keys (least(revoked_at, expires_at)) where revoked_at is not null or expires_at is not null;
-- An account has few keys of its own, beside those of its projects.
create index keys_of_account on keys (account_id) where kind = 'account';
