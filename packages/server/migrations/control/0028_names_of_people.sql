-- The name of a person, as other members see it beside the email address. null: none was given.
alter table people add column name text;
