// The replication protocol: commands, base backups and WAL, over a session that PostgreSQL opens in walsender mode. Such a
// session speaks the simple protocol only, and knows replication commands instead of SQL.
import { AskError, readRow, type TextRow } from '../wire/ask.ts';
import { FrontendMessages } from '../wire/frontend-messages.ts';
import type { ServerAddress } from '../wire/server-address.ts';
import { type Receiver, Session, silent } from '../wire/session.ts';
import { formatLsn, parseLsn } from './lsn.ts';

export type SystemIdentity = { cluster: string; timeline: number; flushed: bigint };
/** WAL that arrives: `bytes` are valid during the call only. */
export type WalReceiver = {
  data(start: bigint, bytes: Buffer): void;
  /** The end of what PostgreSQL has flushed, as far as it said. */
  serverEnd(lsn: bigint): void;
};
export type WalStream = {
  /** Rejects when the connection breaks or PostgreSQL ends the stream. Resolves after `stop`. */
  ended: Promise<void>;
  /** Tells PostgreSQL how far WAL was received, and how far it is stored: up to there, the slot gives it up. */
  confirm(received: bigint, stored: bigint): void;
  pause(): void;
  resume(): void;
  stop(): void;
};

export function openReplication(address: ServerAddress): Promise<Session> {
  return Session.open(address, { replication: 'true', application_name: 'rowhouse backup' });
}

/** Runs one replication command that returns rows. */
export function command(session: Session, text: string): Promise<TextRow[]> {
  return new Promise((resolve, reject) => {
    const rows: TextRow[] = [];
    send(session, text, {
      row: (bytes, start) => void rows.push(readRow(bytes, start)),
      done: (error) => (error ? reject(error) : resolve(rows)),
    });
  });
}

export async function identifySystem(session: Session): Promise<SystemIdentity> {
  const [row] = await command(session, 'IDENTIFY_SYSTEM');
  const [cluster, timeline, position] = row ?? [];
  if (!cluster || !timeline || !position) throw new Error('PostgreSQL does not identify itself.');
  return { cluster, timeline: Number(timeline), flushed: parseLsn(position) };
}

/** Sends a content in the COPY protocol: UPLOAD_MANIFEST. */
export function upload(session: Session, text: string, content: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    send(session, text, {
      copy: () => {
        const messages = new FrontendMessages();
        for (let at = 0; at < content.length; at += 65_536) {
          session.write(messages.copyData(content.subarray(at, at + 65_536)).take());
        }
        session.write(messages.copyDone().take());
      },
      done: (error) => (error ? reject(error) : resolve()),
    });
  });
}

/** START_REPLICATION on a physical slot. */
export function streamWal(
  session: Session,
  { slot, timeline, from }: { slot: string; timeline: number; from: bigint },
  receiver: WalReceiver,
): WalStream {
  const messages = new FrontendMessages();
  let confirmed = { received: from, stored: from };
  let isStopped = false;
  const tell = () => {
    const status = Buffer.alloc(34);
    status[0] = 114;
    status.writeBigUInt64BE(confirmed.received, 1);
    status.writeBigUInt64BE(confirmed.stored, 9);
    status.writeBigUInt64BE(confirmed.stored, 17);
    // Microseconds since 2000.
    status.writeBigInt64BE(BigInt(Date.now() - 946_684_800_000) * 1000n, 25);
    session.write(messages.copyData(status).take());
  };
  const ended = new Promise<void>((resolve, reject) => {
    send(session, `START_REPLICATION SLOT ${slot} PHYSICAL ${formatLsn(from)} TIMELINE ${timeline}`, {
      copyData: (bytes, start, end) => {
        const kind = bytes[start];
        if (kind === 119) {
          receiver.serverEnd(bytes.readBigUInt64BE(start + 9));
          receiver.data(bytes.readBigUInt64BE(start + 1), bytes.subarray(start + 25, end));
        } else if (kind === 107) {
          receiver.serverEnd(bytes.readBigUInt64BE(start + 1));
          if (bytes[start + 17] === 1) tell();
        }
      },
      done: (error) => {
        if (isStopped) resolve();
        else reject(error ?? new Error('PostgreSQL ended the stream of WAL.'));
      },
    });
  });
  return {
    ended,
    confirm: (received, stored) => {
      confirmed = { received, stored };
      tell();
    },
    pause: () => session.pause(),
    resume: () => session.resume(),
    stop: () => {
      isStopped = true;
      session.close();
    },
  };
}

type Answer = Partial<Pick<Receiver, 'row' | 'copyData' | 'copy'>> & { done(error?: Error): void };

/** Sends a command and calls `done` once, with the error that PostgreSQL reported or that broke the session. */
export function send(session: Session, text: string, { done, ...answer }: Answer): void {
  let failure: Error | undefined;
  session.out.query(text);
  session.send({
    ...silent,
    ...answer,
    error: (error) => {
      failure ??= new AskError(error);
    },
    ready: () => done(failure),
    lost: (error) => done(failure ?? error),
  });
}
