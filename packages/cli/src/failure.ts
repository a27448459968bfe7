// Failures of a command. They have the format of the API's errors, so that people and --json see one format for both.

/** What PostgreSQL says about a statement. `position`: in characters, from 1. */
export type SqlProblem = {
  state?: string;
  position?: number | null;
  detail?: string | null;
  hint?: string | null;
};

export type FailureBody = {
  ok: false;
  error: {
    code: string;
    message: string;
    hint?: string | undefined;
    details?: unknown;
    sql?: SqlProblem;
    excerpt?: string[];
  };
  /** Only in a response of the service. */
  request_id?: string;
};

export class Failure extends Error {
  override readonly name = 'Failure';
  readonly body: FailureBody;

  constructor(body: FailureBody) {
    super(body.error.message);
    this.body = body;
  }
}

/** A failure of the command itself, before or without a response of the service. */
export function failure(code: string, message: string, hint?: string): Failure {
  return new Failure({ ok: false, error: { code, message, ...(hint !== undefined && { hint }) } });
}
