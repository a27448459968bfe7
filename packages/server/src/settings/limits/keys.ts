// How many keys there may be. See docs/keys.md.

/** Working keys of a project. */
export const maxProjectKeys = 1_000;
/** Working keys of an account. */
export const maxAccountKeys = 100;
/** How long a key that was revoked or has expired is still listed. */
export const endedKeyDays = 30;
