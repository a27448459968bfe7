-- What a job does at present, or did last: its phase, and how it goes about its work.
alter table jobs add column details jsonb;
