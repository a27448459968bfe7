-- Requests with a publishable key and no user's token act as the role `anon`. They have no claims, so that auth.uid() and
-- auth.jwt() are null; a setting of its own says who acts (query/visitors.ts). With claims, the claims say it.

-- In a database that a project lives in already, the function belongs to the role that owns users; in the template, to us.
do $$
begin
  if current_database() ~ '^p_' then
    execute format('set local role %I', current_database() || '_auth');
  end if;
end $$;

create or replace function auth.role() returns text language sql stable parallel safe
  return coalesce(
    nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role',
    nullif(current_setting('request.role', true), ''));

do $$
begin
  if current_database() ~ '^p_' then
    set local role none;
  end if;
end $$;
