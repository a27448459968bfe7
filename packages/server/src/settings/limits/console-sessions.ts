// How long a person stays signed in to the console. See docs/console.md.
const minuteMs = 60_000;

/** A session that sends no request for this long is closed. */
export const sessionIdleMs = 120 * minuteMs;
/** In any case a session ends after this time. It is the lifetime of the cookie, too. */
export const sessionMaxMs = 12 * 60 * minuteMs;
/** How long a session counts as confirmed after the person has given the password again. */
export const sessionConfirmedMs = 5 * minuteMs;
/** How many sessions one key may have. A further sign-in ends the one that was not used for the longest time. */
export const sessionsPerKey = 50;
