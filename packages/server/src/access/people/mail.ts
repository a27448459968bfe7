// Mail to people: links with codes, and notices about what changed. The destination is that of the mail to end users.
import type { Later } from '../../lib/later.ts';
import type { Delivery } from '../mail/delivery.ts';
import type { PersonMessage } from '../mail/mail-texts.ts';

type LinkKind = 'invitation' | 'recovery' | 'email';
type Notice = Exclude<PersonMessage['kind'], 'member_invitation' | 'member_recovery' | 'member_email'>;

export type PeopleMail = {
  /** False: no mail server is configured, or nobody knows the address of the console. */
  readonly isConfigured: boolean;
  /** The address in the console, with the code behind the #, which no server gets to see. */
  link(kind: LinkKind, code: string): string;
  send(message: PersonMessage): Promise<void>;
  /** After the response. null: nothing is sent. */
  sendLater(make: () => Promise<PersonMessage | null>): void;
  notifyLater(kind: Notice, email: string): void;
};

/** `page`: the address of the console. null: only a path is known, which no mail can contain. */
export function openPeopleMail(delivery: Delivery, page: string | null, later: Later): PeopleMail {
  const isConfigured = delivery.isConfigured && page !== null;
  const sendLater: PeopleMail['sendLater'] = (make) => {
    if (!isConfigured) return;
    later.run(async () => {
      const message = await make();
      if (message) await delivery.send(message);
    });
  };
  return {
    isConfigured,
    link: (kind, code) => `${page ?? '/console/'}#${kind}=${code}`,
    send: (message) => delivery.send(message),
    sendLater,
    notifyLater: (kind, email) =>
      sendLater(async () => ({ kind, account: null, email, link: null, expiresAt: null })),
  };
}
