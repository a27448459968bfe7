-- What every project database is born with. Runs once, in the template; owners are set when a database is made from it.

-- End users of the project's application live here, out of reach of the project's own role.
create schema auth;
revoke all on schema auth from public;

-- The service's own guards and the list of migrations (engine/template.ts made the schema). Nobody else looks inside.
revoke all on schema rowhouse from public;
