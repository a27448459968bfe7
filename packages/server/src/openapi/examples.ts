// The requests with which pages like /docs fill their forms: a project "my-shop" with a table teas (id, name, price) and a user
// ada@example.com. A test sends each of them to a live service.

/** Examples of path parameters. Ids are made by the service. */
export const pathExamples: Readonly<Record<string, string>> = {
  slug: 'my-shop',
  table: 'teas',
  name: 'before the migration',
};

/** The slugs of operations on a branch. */
export const slugExamples: Readonly<Record<string, string>> = {
  resetBranch: 'preview',
  promoteBranch: 'preview',
};

const ada = { email: 'ada@example.com', password: 'correct horse' };

/** Examples of JSON bodies, by the operation. */
export const bodyExamples: Readonly<Record<string, object>> = {
  createAccount: { name: 'Acme', max_projects: 10 },
  changeAccount: { max_projects: 20 },
  recoverPerson: { email: ada.email },
  changeOwnAccount: { name: 'Tea House' },
  issueAccountKey: { name: 'CI', role: 'developer' },
  changeMember: { role: 'developer' },
  inviteMember: { email: 'grace@example.com', role: 'developer' },
  createProject: { name: 'My Shop', limit_mb: 512 },
  changeProject: { name: 'My Shop', limit_mb: 1024 },
  restoreProject: {},
  importProject: { name: 'Imported Shop', from: 'postgres://user:password@db.example.com:5432/shop' },
  createUpload: { limit_mb: 512 },
  createBranch: { name: 'Preview' },
  moveProject: { server: 'db2' },
  takeBackup: { kind: 'full' },
  verifyBackups: {},
  drillRestore: { project: 'my-shop' },
  pruneBackups: {},
  addServer: { name: 'db2', address: 'postgres://rowhouse:password@db2.example.com:5432/postgres' },
  changeServer: { labels: ['eu', 'ssd'] },
  drainServer: { move: false },
  createSnapshot: { name: 'before the migration' },
  issueKey: { name: 'Website', scopes: ['tables:read'], tables: ['teas'] },
  rotateKey: { grace_seconds: 3600 },
  runQuery: { query: 'select $1::int + 1 as two', params: [1] },
  runBatch: {
    statements: [{ query: 'select 1 as one' }, { query: 'select $1::text as tea', params: ['Tea'] }],
  },
  saveQuery: { name: 'All teas', query: 'select * from teas' },
  changeSavedQuery: { name: 'Teas by price', query: 'select * from teas order by price' },
  addToHistory: { query: 'select count(*) from teas', duration_ms: 1.5, row_count: 1 },
  insertRows: { name: 'Tea', price: 4.5 },
  updateRows: { price: 3.5 },
  signUp: { ...ada, data: { name: 'Ada' } },
  signIn: ada,
  refreshSession: { refresh_token: 'rh_refresh_…' },
  signOut: { scope: 'this' },
  changeSignedInUser: { data: { name: 'Ada Lovelace' } },
  recoverUser: { email: ada.email },
  verifyUser: { email: ada.email },
  createUser: { email: 'grace@example.com', password: 'correct horse', email_verified: true },
  changeUser: { data: { name: 'Grace' }, banned: false },
  changeUserSettings: { refuse_common_passwords: true },
  actAsUser: { expires_in: 900 },
  runNeonQuery: { query: 'select $1::int + 1 as two', params: [1] },
};
