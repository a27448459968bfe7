// What a command says no with: in the shape of the API's own errors, so that people and --json get both kinds alike.

export type FailureBody = {
  ok: false;
  error: { code: string; message: string; hint?: string | undefined };
  /** Only of an answer of the service. */
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

/** A failure of our own, before or without an answer of the service. */
export function failure(code: string, message: string, hint?: string): Failure {
  return new Failure({ ok: false, error: { code, message, ...(hint !== undefined && { hint }) } });
}
