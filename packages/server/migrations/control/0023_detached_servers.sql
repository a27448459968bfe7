-- A restore of the whole installation detaches the further servers: their databases are newer than the restored rows. The
-- restore itself does this too, in a control database of an earlier version, so the constraint may be there already.
alter table servers drop constraint if exists servers_state_check;
alter table servers add constraint servers_state_check
  check (state in ('active', 'draining', 'removing', 'detached'));
