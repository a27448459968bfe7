// People of the console: how long what they get by mail or from an operator can be used, and how many of each there may be. See
// docs/people.md.

/** How long an invitation can be accepted. */
export const invitationDays = 7;
/** How long the link that a start prints signs in to the console. */
export const signInLinkMinutes = 15;
/** How long a mailed link can confirm a new email address. */
export const emailChangeMinutes = 60;
/** How long a mailed link can set a new password. */
export const mailedRecoveryMinutes = 60;
/** The same for a link that an operator hands over by some other way, which can take longer. */
export const givenRecoveryMinutes = 24 * 60;
/** How long an authenticator may take to answer. */
export const passkeyChallengeMinutes = 5;
/** How long a person whom the provider has identified may take for the second factor. */
export const providerProofMinutes = 5;
/** A network from which a person signed in this long ago is still known, so that strangers cannot lock the person out there. */
export const knownNetworkDays = 180;

/** Members of an account. */
export const maxMembers = 1_000;
/** Passkeys of a person. */
export const maxPasskeys = 20;
