// The error class, and how its messages repeat what a caller sent.
import { type ErrorCode, errorCodes } from '@rowhouse/api';

export type Extras = {
  hint?: string;
  details?: unknown;
  retryAfterS?: number;
  cause?: unknown;
  status?: number;
  sql?: Record<string, string>;
};

/** An error for the caller. Anything else that is thrown is a bug: the caller gets 500, and only the log has more. */
export class RowhouseError extends Error {
  override readonly name = 'RowhouseError';
  readonly code: ErrorCode;
  readonly status: number;
  readonly hint: string | undefined;
  readonly details: unknown;
  readonly retryAfterS: number | undefined;
  /** PostgreSQL's own fields for an error in the caller's SQL. */
  readonly sql: Record<string, string> | undefined;

  constructor(code: ErrorCode, message: string, extras: Extras = {}) {
    super(message, { cause: extras.cause });
    this.code = code;
    this.status = extras.status ?? errorCodes[code].status;
    this.sql = extras.sql;
    this.hint = extras.hint;
    this.details = extras.details;
    this.retryAfterS = extras.retryAfterS;
  }
}

/** As people write it: "256 KB", "32 MB". All limits are whole numbers of these units. */
export function formatBytes(bytes: number): string {
  const mb = bytes / 1024 ** 2;
  return Number.isInteger(mb) ? `${mb} MB` : `${bytes / 1024} KB`;
}

/** A message repeats no more of the caller's input than a person would read. */
export function clip(text: string, most = 80): string {
  const printable = text.replace(/\p{C}/gu, '�');
  return printable.length > most ? `${printable.slice(0, most)}…` : printable;
}
