// Answers PostgreSQL's requests for a password, only by SCRAM: with another method, the server would learn the password.
import type { FrontendMessages } from './frontend-messages.ts';
import { scramClient } from './scram.ts';

/** Returns whether `out` has something to send. */
type Answer = (bytes: Buffer, at: number, end: number) => boolean;

export function authenticateBy(password: string, out: FrontendMessages): Answer {
  const scram = scramClient(password);
  return (bytes, at, end) => {
    const kind = bytes.readInt32BE(at);
    if (kind === 0) return false;
    if (kind === 10) out.saslInitial('SCRAM-SHA-256', scram.first());
    else if (kind === 11) out.saslResponse(scram.final(bytes.toString('utf8', at + 4, end)));
    else if (kind === 12) scram.verify(bytes.toString('utf8', at + 4, end));
    else throw new Error('PostgreSQL requests an authentication method other than SCRAM.');
    return kind !== 12;
  };
}
