-- The lock by which the process that runs a job is known to live (control/presence.ts). null: a process of an earlier version.
alter table jobs add column runner int;
