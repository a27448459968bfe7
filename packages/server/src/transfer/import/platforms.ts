// What is known of the services that dumps come from: what a project does not need because it served the service itself.
// Everything else that is not taken over counts as lost.

/** Supabase's services own these; without the services they have no use. */
export const supabaseSchemas: ReadonlySet<string> = new Set([
  'storage',
  'realtime',
  '_realtime',
  'supabase_functions',
  'supabase_migrations',
  '_supavisor',
  '_analytics',
  'vault',
  'graphql',
  'graphql_public',
  'pgbouncer',
  'pgsodium',
  'pgsodium_masks',
  'pgtle',
  'net',
  'cron',
]);

/** Tables of Supabase whose rows have no meaning without its services: sessions, caches, and lists of their own migrations. */
export const needlessRows: ReadonlySet<string> = new Set([
  'auth.audit_log_entries',
  'auth.flow_state',
  'auth.identities',
  'auth.instances',
  'auth.mfa_amr_claims',
  'auth.mfa_challenges',
  'auth.oauth_authorizations',
  'auth.one_time_tokens',
  'auth.refresh_tokens',
  'auth.saml_relay_states',
  'auth.schema_migrations',
  'auth.sessions',
  'realtime.schema_migrations',
  'realtime.subscription',
  'realtime.messages',
  '_realtime.schema_migrations',
  '_realtime.tenants',
  '_realtime.extensions',
  'storage.migrations',
  'storage.prefixes',
  'storage.s3_multipart_uploads',
  'storage.s3_multipart_uploads_parts',
  'supabase_functions.migrations',
  'supabase_migrations.schema_migrations',
  'supabase_migrations.seed_files',
  'net.http_request_queue',
  'net._http_response',
  'cron.job_run_details',
]);

/** Triggers that Supabase's services have on their own tables. */
export const supabaseTriggers: ReadonlySet<string> = new Set([
  'update_objects_updated_at',
  'enforce_bucket_name_length_trigger',
  'objects_delete_delete_prefix',
  'objects_insert_create_prefix',
  'objects_update_create_prefix',
  'prefixes_create_hierarchy',
  'prefixes_delete_hierarchy',
  'protect_buckets_delete',
  'protect_objects_delete',
  'tr_check_filters',
]);

export const supabaseEventTriggers: ReadonlySet<string> = new Set([
  'issue_graphql_placeholder',
  'issue_pg_cron_access',
  'issue_pg_graphql_access',
  'issue_pg_net_access',
  'pgrst_ddl_watch',
  'pgrst_drop_watch',
]);

/** Every database of Heroku has them. */
export const herokuEventTriggers: ReadonlySet<string> = new Set([
  'extension_before_drop',
  'log_create_ext',
  'log_drop_ext',
  'validate_extension',
]);

/** Extensions that watch the server, or serve the service. */
const needlessExtensions: ReadonlySet<string> = new Set([
  'pg_stat_statements',
  'pg_graphql',
  'supabase_vault',
  'pgsodium',
  'pg_tle',
  'neon',
  'neon_utils',
  'rds_tools',
  'google_vacuum_mgmt',
]);

/** The roles of Supabase's own services, by exact name: a project's own roles may begin with `supabase_`, too. */
export const supabaseRoles: ReadonlySet<string> = new Set([
  'supabase_admin',
  'supabase_auth_admin',
  'supabase_etl_admin',
  'supabase_functions_admin',
  'supabase_privileged_role',
  'supabase_read_only_user',
  'supabase_realtime_admin',
  'supabase_replication_admin',
  'supabase_storage_admin',
]);

const platformRoles: ReadonlySet<string> = new Set([
  'postgres',
  'authenticator',
  'dashboard_user',
  'pgbouncer',
  'pgsodium_keyholder',
  'pgsodium_keyiduser',
  'pgsodium_keymaker',
  'cli_login_postgres',
  'cloud_admin',
  'neon_superuser',
  'neon_service',
  'rdsadmin',
  'rds_superuser',
  'rds_replication',
  'rds_iam',
  'rds_password',
  'rdstopmgr',
  'rdsrepladmin',
  'cloudsqladmin',
  'cloudsqlsuperuser',
  'azuresu',
  'azure_pg_admin',
]);

/** These exist on every server of ours. */
export const sharedRoles: ReadonlySet<string> = new Set(['authenticated', 'anon', 'service_role']);

/** A role of the service, which no project has. */
export function isOfPlatform(role: string): boolean {
  return platformRoles.has(role) || supabaseRoles.has(role);
}

/** CREATE EXTENSION, or a comment on it. */
export function isNeedlessExtension(text: string): boolean {
  const [, name] = /^create\s+extension\s+(?:if\s+not\s+exists\s+)?"?([\w-]{1,63})/i.exec(text) ?? [];
  return name !== undefined && needlessExtensions.has(name.toLowerCase());
}
