-- A project that has held back the notification queue of the whole server more than once is refused direct connections
-- for a while. Until when (Unix time) stands in a setting of its database, which only the service can change:
-- '1794800000 socket'. The second word tells how the service's own sessions come in.
do $guard$
begin
  -- Older ones know no login trigger.
  if pg_catalog.current_setting('server_version_num')::int < 170000 then
    return;
  end if;
  execute $create$
    create or replace function rowhouse.greet_direct_login() returns event_trigger
    language plpgsql set search_path = pg_catalog as $function$
    declare
      settings text[];
      door text[];
      pause text[];
      way text;
    begin
      if session_user <> current_database() then
        return;
      end if;
      select setconfig into settings from pg_db_role_setting
      where setrole = 0 and setdatabase = (select oid from pg_database where datname = current_database());
      select string_to_array(substr(setting, length('rowhouse.direct=') + 1), ' ') into door
      from unnest(settings) as setting where starts_with(setting, 'rowhouse.direct=');
      select string_to_array(substr(setting, length('rowhouse.direct_pause=') + 1), ' ') into pause
      from unnest(settings) as setting where starts_with(setting, 'rowhouse.direct_pause=');
      way := coalesce(pause[2], door[2]);
      if way is null
        or way = 'socket' and inet_client_addr() is null
        or way = 'name' and current_setting('application_name') in ('rowhouse', 'rowhouse query') then
        return;
      end if;
      if pause[1]::bigint > extract(epoch from clock_timestamp()) then
        raise exception 'this project held back the notification queue that all projects share: direct connections are refused until %',
            to_char(to_timestamp(pause[1]::bigint) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
          using errcode = 'configuration_limit_exceeded',
                hint = 'The API works as usual. In a session that runs LISTEN, keep transactions short and read notifications as they arrive.';
      end if;
      if door[1] = 'closed' then
        raise exception 'this project is over limit_mb, and direct connections went on to fill it: none is let in until there is room'
          using errcode = 'configuration_limit_exceeded',
                hint = 'Delete rows or drop tables by POST /projects/:slug/query, then POST /projects/:slug/compact; or raise limit_mb.';
      end if;
      if door[1] = 'full' then
        raise warning 'this project has reached limit_mb: a statement that makes it larger is cancelled, a session that goes on is ended'
          using hint = 'DELETE, TRUNCATE, DROP and VACUUM make room; or raise limit_mb.';
      end if;
    end $function$
  $create$;
end $guard$;
