// Moves of projects to another server. See docs/fleet.md.

/** How long a project may pause at the end of a move, if the request does not say it. */
export const defaultMaxPauseMs = 20_000;
/** How long each phase of a move may take. */
export const movePhaseMs = 12 * 60 * 60_000;
/** How long copying may go on without a row. A transaction that stays open on the source makes PostgreSQL wait. */
export const moveStallMs = 60_000;
