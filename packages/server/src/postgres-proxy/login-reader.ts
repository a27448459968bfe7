// Follows what PostgreSQL sends from the startup to the first ReadyForQuery. Afterwards the proxy reads nothing.

export type LoginEvents = {
  /** PostgreSQL has accepted the password. */
  onAuthenticated(): void;
  onKey(pid: number, secret: Buffer): void;
  /** The host accepts no writes. */
  onStandby(): void;
  /** `at`: where its message begins in the bytes that have arrived last. Negative: in earlier ones. */
  onRefused(sqlstate: string, at: number): void;
  onReady(): void;
};

const message = { authentication: 82, setting: 83, keyData: 75, error: 69, ready: 90 };
const standby = Buffer.from('in_hot_standby\0on\0');
/** More than any of the messages that are read here needs. The rest of a longer one is skipped. */
const keptBytes = 1024;

/** Takes the bytes as they arrive. They are passed on in any case. */
export function openLoginReader(events: LoginEvents): (bytes: Buffer) => void {
  let head = Buffer.alloc(0);
  let kind = 0;
  let left = 0;
  let body: Buffer[] = [];
  let isReady = false;
  /** Where the message begins in the present bytes. */
  let begin = 0;

  const finish = () => {
    const content = Buffer.concat(body);
    body = [];
    head = Buffer.alloc(0);
    if (kind === message.authentication && content.length >= 4 && content.readInt32BE(0) === 0)
      events.onAuthenticated();
    else if (kind === message.keyData && content.length > 4)
      events.onKey(content.readInt32BE(0), content.subarray(4));
    else if (kind === message.setting && content.equals(standby)) events.onStandby();
    else if (kind === message.error) events.onRefused(sqlstateIn(content), begin);
    else if (kind === message.ready) {
      isReady = true;
      events.onReady();
    }
  };

  return (bytes) => {
    // -1 stands for a message that began in an earlier piece.
    begin = -1;
    for (let at = 0; at < bytes.length && !isReady; ) {
      if (head.length < 5) {
        if (head.length === 0) begin = at;
        const part = bytes.subarray(at, at + 5 - head.length);
        head = Buffer.concat([head, part]);
        at += part.length;
        if (head.length < 5) return;
        kind = head[0] ?? 0;
        left = head.readUInt32BE(1) - 4;
      } else {
        const part = bytes.subarray(at, at + left);
        const kept = body.reduce((sum, { length }) => sum + length, 0);
        if (kept < keptBytes) body.push(Buffer.from(part.subarray(0, keptBytes - kept)));
        at += part.length;
        left -= part.length;
      }
      if (left <= 0) finish();
    }
  };
}

function sqlstateIn(error: Buffer): string {
  const field = error
    .toString('latin1')
    .split('\0')
    .find((text) => /^C[0-9A-Z]{5}$/.test(text));
  return field?.slice(1) ?? '';
}
