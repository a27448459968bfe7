// Failures that several operations share, beside those that the kind of a request brings with it (failures.ts). A route
// declares the codes with which it can fail in the `fails` of its config.

/** The project's limit, or the disk of its server. */
export const spaceFailures = ['project_full', 'server_full'] as const;

/** What a statement of the caller can run into. */
export const statementFailures = ['query_timeout', 'conflict', ...spaceFailures] as const;

export const sqlFailures = [
  'sql_error',
  'multiple_statements',
  'statement_not_allowed',
  'constraint_violation',
  ...statementFailures,
] as const;

/** What a new project can run into. */
export const placementFailures = [
  'account_limit',
  'slug_taken',
  'server_not_found',
  'conflict',
  ...spaceFailures,
] as const;

/** What a request about the users of a project can run into. */
export const userFailures = ['constraint_violation', 'query_timeout', 'conflict', ...spaceFailures] as const;

export const backupFailures = [
  'backups_off',
  'backup_failed',
  'conflict',
  'server_not_found',
  'server_full',
] as const;
