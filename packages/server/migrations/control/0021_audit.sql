-- Who did what, with which outcome. Entries are only added; the background work removes those that are older than the retention.
create table audit_log (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  -- The account that it concerns. null: the installation. No references: an entry outlives what it is about.
  account_id text,
  actor_kind text not null check (actor_kind in ('person', 'key', 'operator', 'nobody')),
  actor_id text,
  -- The email address of a person, as it was then.
  actor_name text,
  address text not null,
  action text not null,
  project_id text,
  project_slug text,
  -- What else it was about: a member, a key, a server.
  target text,
  outcome text not null check (outcome in ('done', 'refused', 'failed')),
  -- The code of the error.
  error text,
  details jsonb,
  request_id text not null
);
create index audit_log_of_account on audit_log (account_id, id desc);
create index audit_log_at on audit_log (at);

-- The service's role owns the table, so that this is a guard against mistakes of the service, not against a superuser.
create function audit_log_is_append_only() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and old.at < now() - make_interval(days => coalesce(
    (select value::int from settings where name = 'audit_days'), 365)) then
    return old;
  end if;
  raise exception 'The audit log is append-only.' using errcode = 'insufficient_privilege';
end $$;
create trigger audit_log_append_only before update or delete on audit_log
  for each row execute function audit_log_is_append_only();
create trigger audit_log_not_truncated before truncate on audit_log
  for each statement execute function audit_log_is_append_only();
