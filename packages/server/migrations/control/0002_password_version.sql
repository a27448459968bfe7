-- Rises when a project's database password has to change for good (a rotation without grace).
alter table projects add column password_version integer not null default 1;
