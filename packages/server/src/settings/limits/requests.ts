// Sizes and times of requests that no setting changes. docs/limits.md lists the sizes, docs/operating.md the times.
import { mb } from '../../lib/bytes.ts';

const kb = 1024;

/** The body of /query, /batch and /sql, and a JSON body of rows. */
export const queryBodyBytes = 32 * mb;
/** The JSON body of every other endpoint. */
export const otherBodyBytes = 256 * kb;
/** A message of an agent to /mcp. */
export const agentBodyBytes = mb;
/** The body of the console's own requests. */
export const consoleBodyBytes = 16 * kb;
/** The same, if it contains what an authenticator has signed. */
export const passkeyBodyBytes = 32 * kb;
/** A line of JSON lines in an import of rows. */
export const jsonLineBytes = 8 * mb;

/**
 * The estimated memory of all larger JSON bodies that are read and run. One of the largest always fits, and what one account
 * leaves is for the smaller ones of others.
 */
export const bodyMemoryBytes = { perAccount: 200 * mb, inAll: 260 * mb };
/** A response that is held until its transaction commits. */
export const heldAnswerBytes = 64 * mb;
/** All such responses together. */
export const heldAnswersBytes = { perAccount: 96 * mb, inAll: 160 * mb };

/** How long a statement of /query may take if the request has no timeout_ms. The response follows within 30 s. */
export const defaultTimeoutMs = 29_000;
/** When a request without a timeout_ms is answered at the latest, whatever it waits for. */
export const answerWithinMs = 29_500;
/** A statement that takes longer is slow: the project's log lists it, and the log of requests has it at level info. */
export const slowMs = 1_000;

/** How long a client may take to send the head of a request, and the whole of it, and how often both are checked. */
export const arrivalMs = { headersMs: 10_000, requestMs: 300_000, checkMs: 2_000 };
/** How long a connection without a request stays open. */
export const keepAliveMs = 72_000;

/** How many rows a page of a table has, if the request does not say it, and at most. */
export const pageRows = { usual: 50, max: 10_000 };
