-- A statement that was cancelled or a session that was ended because the project is full gets PostgreSQL's own words,
-- which do not say why. The next direct login does; and it is refused once direct connections have taken the project
-- too far over its limit. What is to be said stands in a setting of the database, which only its owner, the service, can
-- change: 'full socket', 'closed name 123456'. The second word tells how the service's own sessions come in.
do $guard$
begin
  -- Older ones know no such trigger.
  if pg_catalog.current_setting('server_version_num')::int < 170000 then
    return;
  end if;
  execute $create$
    create function rowhouse.greet_direct_login() returns event_trigger
    language plpgsql set search_path = pg_catalog as $function$
    declare
      door text[];
    begin
      if session_user <> current_database() then
        return;
      end if;
      select string_to_array(substr(setting, length('rowhouse.direct=') + 1), ' ') into door
      from pg_db_role_setting, unnest(setconfig) as setting
      where setrole = 0 and setdatabase = (select oid from pg_database where datname = current_database())
        and setting like 'rowhouse.direct=%';
      if door is null
        or door[2] = 'socket' and inet_client_addr() is null
        or door[2] = 'name' and current_setting('application_name') in ('rowhouse', 'rowhouse query') then
        return;
      end if;
      if door[1] = 'closed' then
        raise exception 'this project is over limit_mb, and direct connections went on to fill it: none is let in until there is room'
          using errcode = 'configuration_limit_exceeded',
                hint = 'Delete rows or drop tables by POST /projects/:slug/query, then POST /projects/:slug/compact; or raise limit_mb.';
      end if;
      raise warning 'this project has reached limit_mb: a statement that makes it larger is cancelled, a session that goes on is ended'
        using hint = 'DELETE, TRUNCATE, DROP and VACUUM make room; or raise limit_mb.';
    end $function$
  $create$;
  execute 'create event trigger rowhouse_logins on login execute function rowhouse.greet_direct_login()';
  -- Enabled only while there is something to say: it makes every login 7 ms slower.
  execute 'alter event trigger rowhouse_logins disable';
end $guard$;
