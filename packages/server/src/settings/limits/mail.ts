// Mail and webhooks: how long a message may take, how many are sent at once, and which are sent again. See docs/operating.md.

/** How long the mail server or the webhook may take for a message. A message to a user is sent once: the user asks again. */
export const deliveryMs = 10_000;
/** How many messages are on their way. An account or a person that floods the queue leaves capacity for the others. */
export const messagesAtOnce = { all: 32, perAccount: 8, kept: 8 };

/** Mail to operators is tried this often. A machine that has trouble with its disks may have some with its network. */
export const operatorMailAttempts = 4;
/** The pause between two attempts. */
export const operatorMailAgainMs = 15_000;
/** How many operators get it. */
export const maxOperatorAddresses = 10;
