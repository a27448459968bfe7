// A commit that waits for a synchronous standby and is cancelled, such as by a deadline. PostgreSQL reports it as done,
// after a warning: it is committed here, but a failover would lose it. So its outcome is unknown.

/** The routine in PostgreSQL's source that gives the warning. */
const routine = 'SyncRepWaitForLSN';
/** As a field of the message. SQL can write neither this field nor a zero byte. */
const field = Buffer.from(`\0R${routine}\0`);

export class UnreplicatedError extends Error {
  override readonly name = 'UnreplicatedError';

  constructor() {
    super('the commit was not replicated');
  }
}

/** `notice`: the content of a NoticeResponse. */
export function saysUnreplicated(notice: Buffer): boolean {
  return notice.includes(field);
}

export function isUnreplicated(notice: { routine: string | undefined }): boolean {
  return notice.routine === routine;
}
