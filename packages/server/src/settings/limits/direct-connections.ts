// Direct connections of PostgreSQL's own clients: how many a project may have, and what strangers may do before they have logged
// in. Who may connect at all is in postgres-proxy/access.ts. See docs/connections.md.

/** PostgreSQL's limit for a project's role: direct connections and sessions of the API together. */
export const maxSessionsOfRole = 40;
/** Direct connections of a project. The other ten are kept for the API. */
export const maxDirectSessions = 30;

/** Limits of the proxy. `total`: for all addresses together. */
export const proxyLimits = {
  /** Connections that have not logged in. */
  halfOpen: { total: 1_000, perAddress: 200 },
  /** Logins in progress on a server. Each occupies a process of PostgreSQL, which has no limit of its own for them. */
  logins: { total: 32, perAddress: 16 },
  /** TLS handshakes in each second. Each takes up to 2 ms of the thread that answers requests. Others wait. */
  handshakes: { total: 100, perAddress: 40 },
  /** After a wrong password, this login counts for so long as one in progress of its address. */
  penaltyMs: 500,
  /** From the connection to the end of the startup packet, TLS included. */
  startupMs: 10_000,
  /** From there until PostgreSQL has accepted the password. */
  loginMs: 15_000,
};
/** How often the system asks whether the client of an idle connection is still there. */
export const keepAliveMs = 60_000;
