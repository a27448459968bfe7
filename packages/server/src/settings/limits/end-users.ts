// Users of projects: their sessions, their networks, and tokens for acting as them. See docs/users.md.

/** The lifetime of a refresh token, counted from its last use. */
export const userSessionDays = 30;
/** The oldest sessions of a user are dropped first. */
export const sessionsPerUser = 200;
/** Within this time, a repeated refresh (a lost response, or two at once) does not count as theft. */
export const repeatedRefreshSeconds = 10;

/** A network that was not seen for longer is no longer known. */
export const knownNetworkDays = 180;
/** How many known networks a user has. The least recently seen one is dropped first. */
export const networksPerUser = 20;

/** How long a code can be used. */
export const codeHours = { recovery: 1, verification: 24 };

/** The longest lifetime of a token for acting as a user, and the usual one. */
export const maxActAsSeconds = 900;
/** How long the record of such a token is kept. */
export const actAsRecordDays = 90;
/** How many records a project keeps. The oldest that have expired are forgotten. */
export const maxActAsRecords = 10_000;
/** How many tokens a project gets in a minute. More than people need; the record stays readable. */
export const maxActAsPerMinute = 60;
