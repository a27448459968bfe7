// Sessions in projects' databases. How many there are are the settings ROWHOUSE_CONNECTIONS, ROWHOUSE_KEPT_CONNECTIONS and
// ROWHOUSE_PROJECT_CONNECTIONS. See docs/operating.md.

export const databaseSessions = {
  /** Statements that wait for a session, on a server. */
  waiting: 2_000,
  /** How long they wait. */
  waitMs: 5_000,
  /** A session that runs nothing for this long is closed. */
  idleMs: 10 * 60_000,
};
