// Passwords of users and people: what they may be, and what a hash costs. See docs/users.md.
import { settings } from '@rowhouse/api/settings';

/**
 * The price of a hash: the rounds of PBKDF2 are the setting ROWHOUSE_PASSWORD_ITERATIONS. Its declaration holds the default for new
 * hashes and the bounds. A stored hash with more rounds than the maximum would delay all other sign-ins.
 */
export const hashIterations = settings.ROWHOUSE_PASSWORD_ITERATIONS;
/** How long a sign-in waits for its turn to hash. */
export const hashTurnMs = 5_000;

export const minPasswordBytes = 8;
export const maxPasswordBytes = 1_024;
