// The names of all operations, which generated clients use as method names, and how each can fail. Names are stable.
// What every operation with a key, a body or a project shares is in failures.ts.
import type { ErrorCode } from '@rowhouse/api';

export type Operation = Readonly<{ id: string; fails?: readonly ErrorCode[] }>;

const full = ['project_full', 'server_full'] as const;
/** What a statement of the caller can run into. */
const statement = ['query_timeout', 'conflict', ...full] as const;
const sql = [
  'sql_error',
  'multiple_statements',
  'statement_not_allowed',
  'constraint_violation',
  ...statement,
] as const;
const rows = ['table_not_found', 'sql_error', 'constraint_violation', 'conflict', 'query_timeout'] as const;
const changes = [...rows, ...statement] as const;
const placed = ['account_limit', 'slug_taken', 'server_not_found', 'conflict', ...full] as const;
const users = ['constraint_violation', 'query_timeout', 'conflict', ...full] as const;
const backups = ['backups_off', 'backup_failed', 'conflict', 'server_not_found', 'server_full'] as const;

const project = '/projects/:slug';
const table = `${project}/tables/:table`;
const auth = `${project}/auth`;

/** By method and path without the prefix of the API. */
export const operations: Readonly<Record<string, Operation>> = {
  'GET /healthz': { id: 'getHealth' },
  'GET /readyz': { id: 'getReadiness' },
  'GET /metrics': { id: 'getMetrics' },
  'GET /accounts': { id: 'listAccounts' },
  'POST /accounts': { id: 'createAccount' },
  'GET /accounts/:id': { id: 'getAccount', fails: ['account_not_found'] },
  'PATCH /accounts/:id': { id: 'changeAccount', fails: ['account_not_found', 'conflict'] },
  'DELETE /accounts/:id': { id: 'deleteAccount', fails: ['account_not_found', 'conflict'] },
  'POST /accounts/:id/restore': { id: 'restoreAccount', fails: ['account_not_found', 'conflict'] },
  'POST /accounts/:id/keys': { id: 'issueKeyOfAccount', fails: ['account_not_found', 'conflict'] },
  'POST /people/recovery': { id: 'recoverPerson', fails: ['member_not_found'] },
  'GET /account': { id: 'getOwnAccount' },
  'PATCH /account': { id: 'changeOwnAccount', fails: ['second_factor_required', 'conflict'] },
  'GET /account/keys': { id: 'listAccountKeys' },
  'POST /account/keys': { id: 'issueAccountKey', fails: ['conflict'] },
  'DELETE /account/keys/:id': { id: 'revokeAccountKey', fails: ['key_not_found', 'conflict'] },
  'GET /account/members': { id: 'listMembers' },
  'PATCH /account/members/:id': {
    id: 'changeMember',
    fails: ['member_not_found', 'project_not_found', 'conflict'],
  },
  'GET /account/members/:id/keys': { id: 'listMemberKeys', fails: ['member_not_found'] },
  'DELETE /account/members/:id': { id: 'removeMember', fails: ['member_not_found', 'conflict'] },
  'POST /account/invitations': { id: 'inviteMember', fails: ['project_not_found', 'conflict'] },
  'DELETE /account/invitations/:id': { id: 'revokeInvitation', fails: ['member_not_found'] },
  'GET /audit': { id: 'readAuditLog' },
  'GET /projects': { id: 'listProjects' },
  'POST /projects': { id: 'createProject', fails: placed },
  [`GET ${project}`]: { id: 'getProject' },
  [`PATCH ${project}`]: { id: 'changeProject', fails: ['account_limit', 'conflict', ...full] },
  [`DELETE ${project}`]: { id: 'deleteProject', fails: ['conflict'] },
  [`POST ${project}/restore`]: { id: 'restoreProject', fails: [...placed, ...backups, 'snapshot_not_found'] },
  [`GET ${project}/connection`]: { id: 'getConnection' },
  [`GET ${project}/usage`]: { id: 'getUsage', fails: ['query_timeout', 'conflict'] },
  [`GET ${project}/logs`]: { id: 'getProjectLogs' },
  [`POST ${project}/compact`]: { id: 'startCompaction', fails: ['conflict', ...full] },
  [`GET ${project}/compact`]: { id: 'getCompaction' },
  [`GET ${project}/export`]: { id: 'exportProject', fails: ['conflict', 'sql_error', 'server_full'] },
  'POST /projects/import': {
    id: 'importProject',
    fails: [...placed, 'upload_not_found', 'invalid_dump', 'import_source_failed'],
  },
  'POST /uploads': { id: 'createUpload', fails: ['conflict', 'server_full'] },
  'GET /uploads': { id: 'listUploads' },
  'GET /uploads/:id': { id: 'getUpload', fails: ['upload_not_found'] },
  'PATCH /uploads/:id': { id: 'continueUpload', fails: ['upload_not_found', 'conflict', 'server_full'] },
  'DELETE /uploads/:id': { id: 'deleteUpload', fails: ['upload_not_found', 'conflict'] },
  [`POST ${project}/branches`]: { id: 'createBranch', fails: [...placed, ...backups] },
  [`GET ${project}/branches`]: { id: 'listBranches' },
  [`POST ${project}/reset`]: { id: 'resetBranch', fails: ['conflict', ...full] },
  [`POST ${project}/promote`]: { id: 'promoteBranch', fails: ['conflict', ...full] },
  [`POST ${project}/move`]: { id: 'moveProject', fails: ['server_not_found', 'conflict', 'server_full'] },
  'GET /jobs': { id: 'listJobs' },
  'GET /jobs/:id': { id: 'getJob', fails: ['job_not_found'] },
  'DELETE /jobs/:id': { id: 'cancelJob', fails: ['job_not_found', 'conflict'] },
  'GET /backups': { id: 'listBackups', fails: backups },
  'POST /backups': { id: 'takeBackup', fails: backups },
  'POST /backups/verify': { id: 'verifyBackups', fails: backups },
  'POST /backups/drill': { id: 'drillRestore', fails: [...backups, 'project_not_found'] },
  'POST /backups/prune': { id: 'pruneBackups', fails: backups },
  'GET /servers': { id: 'listServers' },
  'POST /servers': { id: 'addServer', fails: ['conflict'] },
  'PATCH /servers/:id': { id: 'changeServer', fails: ['server_not_found', 'conflict'] },
  'DELETE /servers/:id': { id: 'removeServer', fails: ['server_not_found', 'conflict'] },
  'POST /servers/:id/drain': { id: 'drainServer', fails: ['server_not_found', 'conflict', 'server_full'] },
  [`POST ${project}/snapshots`]: { id: 'createSnapshot', fails: backups },
  [`GET ${project}/snapshots`]: { id: 'listSnapshots', fails: ['backups_off'] },
  [`DELETE ${project}/snapshots/:name`]: {
    id: 'deleteSnapshot',
    fails: ['snapshot_not_found', 'backups_off'],
  },
  [`GET ${project}/keys`]: { id: 'listKeys' },
  [`POST ${project}/keys`]: { id: 'issueKey', fails: ['conflict'] },
  [`DELETE ${project}/keys/:id`]: { id: 'revokeKey', fails: ['key_not_found', 'conflict'] },
  [`POST ${project}/keys/rotate`]: { id: 'rotateKey' },
  [`POST ${project}/query`]: { id: 'runQuery', fails: [...sql, 'invalid_token'] },
  [`POST ${project}/batch`]: { id: 'runBatch', fails: [...sql, 'invalid_token'] },
  [`GET ${project}/queries`]: { id: 'listSavedQueries' },
  [`POST ${project}/queries`]: { id: 'saveQuery', fails: ['conflict'] },
  [`GET ${project}/queries/:id`]: { id: 'getSavedQuery', fails: ['query_not_found'] },
  [`PATCH ${project}/queries/:id`]: { id: 'changeSavedQuery', fails: ['query_not_found', 'conflict'] },
  [`DELETE ${project}/queries/:id`]: { id: 'deleteSavedQuery', fails: ['query_not_found'] },
  [`GET ${project}/history`]: { id: 'listHistory' },
  [`POST ${project}/history`]: { id: 'addToHistory' },
  [`DELETE ${project}/history`]: { id: 'clearHistory' },
  [`DELETE ${project}/history/:id`]: { id: 'deleteHistoryEntry', fails: ['query_not_found'] },
  [`GET ${table}`]: { id: 'readRows', fails: rows },
  [`POST ${table}`]: { id: 'insertRows', fails: changes },
  [`PATCH ${table}`]: { id: 'updateRows', fails: [...changes, 'row_not_found'] },
  [`DELETE ${table}`]: { id: 'deleteRows', fails: [...changes, 'row_not_found'] },
  [`GET ${project}/tables`]: { id: 'listTables', fails: ['query_timeout', 'conflict'] },
  [`GET ${project}/schema`]: { id: 'describeSchema', fails: ['query_timeout', 'conflict'] },
  [`POST ${auth}/signup`]: { id: 'signUp', fails: [...users, 'email_taken'] },
  [`POST ${auth}/signin`]: { id: 'signIn', fails: [...users, 'invalid_credentials'] },
  [`POST ${auth}/refresh`]: { id: 'refreshSession', fails: [...users, 'invalid_token'] },
  [`POST ${auth}/signout`]: { id: 'signOut', fails: users },
  [`GET ${auth}/user`]: { id: 'getSignedInUser', fails: users },
  [`PATCH ${auth}/user`]: {
    id: 'changeSignedInUser',
    fails: [...users, 'email_taken', 'invalid_credentials'],
  },
  [`DELETE ${auth}/user`]: { id: 'deleteSignedInUser', fails: users },
  [`POST ${auth}/recover`]: { id: 'recoverUser', fails: [...users, 'invalid_code', 'user_not_found'] },
  [`POST ${auth}/verify`]: { id: 'verifyUser', fails: [...users, 'invalid_code', 'user_not_found'] },
  [`GET ${auth}/users`]: { id: 'listUsers', fails: users },
  [`POST ${auth}/users`]: { id: 'createUser', fails: [...users, 'email_taken'] },
  [`GET ${auth}/users/:id`]: { id: 'getUser', fails: [...users, 'user_not_found'] },
  [`PATCH ${auth}/users/:id`]: { id: 'changeUser', fails: [...users, 'user_not_found', 'email_taken'] },
  [`DELETE ${auth}/users/:id`]: { id: 'deleteUser', fails: [...users, 'user_not_found'] },
  [`GET ${auth}/settings`]: { id: 'getUserSettings', fails: users },
  [`PATCH ${auth}/settings`]: { id: 'changeUserSettings', fails: users },
  [`GET ${auth}/users/:id/sessions`]: { id: 'listUserSessions', fails: [...users, 'user_not_found'] },
  [`DELETE ${auth}/users/:id/sessions`]: { id: 'endUserSessions', fails: [...users, 'user_not_found'] },
  [`DELETE ${auth}/users/:id/sessions/:session`]: {
    id: 'endUserSession',
    fails: [...users, 'user_not_found', 'session_not_found'],
  },
  [`POST ${auth}/users/:id/act-as`]: { id: 'actAsUser', fails: [...users, 'user_not_found'] },
  [`GET ${auth}/act-as`]: { id: 'listActingSessions', fails: users },
  [`DELETE ${auth}/act-as/:id`]: { id: 'stopActing', fails: [...users, 'user_not_found'] },
  'POST /sql': {
    id: 'runNeonQuery',
    fails: [...sql, 'invalid_credentials', 'project_not_found', 'project_not_ready'],
  },
};
