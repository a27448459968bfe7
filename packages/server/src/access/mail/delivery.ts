// Sends messages with codes to users and people, by mail or webhook. The operator configures the destination for the whole
// installation: a URL chosen by a project could reach into the operator's internal network (SSRF).
//
// A message is tried once, because a user asks again. Only mail to operators is tried again: operatorMailAttempts and
// operatorMailAgainMs in settings/limits/mail.ts, applied in access/people/operators.ts.

import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import type { SMTPTransportOptions } from 'nodemailer';
import { errors, RowhouseError } from '../../errors/errors.ts';
import { AccountSlots } from '../../lib/account-slots.ts';
import { isLoopback, withoutBrackets } from '../../lib/networks.ts';
import { deliveryMs, messagesAtOnce } from '../../settings/limits/mail.ts';
import { type Message, mailOf } from './mail-texts.ts';

export type { Message };

export type Delivery = {
  /** False if the operator configured no destination; `send` must not be called then. */
  readonly isConfigured: boolean;
  /**
   * Resolves once the message was accepted. Throws overloaded, messageNotSent, or invalidRequest for an unusable
   * address.
   */
  send(message: Message): Promise<void>;
  /** Accepts no further messages and waits for those in flight. */
  stop(): Promise<void>;
};

export type DeliveryConfig = {
  smtpUrl: string | null;
  mailFrom: string | null;
  webhookUrl: string | null;
  webhookSecret: string | null;
};

/** The signal always fires at the deadline: nothing may keep running after it. */
type Channel = (message: Message, signal: AbortSignal) => Promise<void>;

export function openDelivery(config: DeliveryConfig, { timeoutMs = deliveryMs } = {}): Delivery {
  const channel = channelOf(config);
  const slots = new AccountSlots('messages', messagesAtOnce);
  const inFlight = new Set<Promise<void>>();
  let isStopped = false;
  return {
    isConfigured: channel !== null,
    async send(message) {
      if (!channel) throw new Error('Neither a mail server nor a webhook is configured.');
      if (isStopped) throw errors.messageNotSent(new Error('The service is being stopped.'));
      const leave = slots.enter(senderOf(message));
      const sending = inTime(channel, message, timeoutMs);
      inFlight.add(sending);
      try {
        await sending;
      } catch (error) {
        // The remote server's answer goes to the log only.
        throw error instanceof RowhouseError ? error : errors.messageNotSent(error);
      } finally {
        inFlight.delete(sending);
        leave();
      }
    },
    async stop() {
      isStopped = true;
      await Promise.allSettled(inFlight);
    },
  };
}

function senderOf(message: Message): string {
  if ('project' in message) return `account ${message.project.accountId}`;
  if (message.sentBy !== undefined) return `person ${message.sentBy}`;
  return message.account ? `account ${message.account.id}` : 'people';
}

async function inTime(channel: Channel, message: Message, timeoutMs: number): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs);
  const late = once(signal, 'abort').then(() => {
    throw new Error(`The message was not taken within ${timeoutMs} ms.`);
  });
  await Promise.race([channel(message, signal), late]);
}

function channelOf({ smtpUrl, mailFrom, webhookUrl, webhookSecret }: DeliveryConfig): Channel | null {
  if (smtpUrl !== null && mailFrom !== null) return mailChannel(smtpUrl, mailFrom);
  if (webhookUrl !== null && webhookSecret !== null)
    return webhookChannel(new URL(webhookUrl), webhookSecret);
  return null;
}

function mailChannel(smtpUrl: string, from: string): Channel {
  const server = mailServer(new URL(smtpUrl));
  return async (message, signal) => {
    const { email } = message;
    if (!plainAddress.test(email)) {
      throw errors.invalidRequest([{ path: 'email', problem: 'mail cannot be sent to this address' }]);
    }
    // One connection per message, opened here: otherwise it could not be aborted at the deadline in every state.
    const getSocket: SMTPTransportOptions['getSocket'] = (_, done) => {
      const connection = net.connect({ host: server.host, port: server.port, signal });
      connection.once('error', done);
      connection.once('connect', () => {
        connection.off('error', done);
        // nodemailer reports failures while it uses the socket. Later errors would have no listener.
        connection.on('error', () => {});
        done(null, { connection });
      });
    };
    // Loaded when it is first needed: it takes 3 MB.
    const { createTransport } = await import('nodemailer');
    await createTransport({ ...server, getSocket }).sendMail({
      from,
      // As an object it is one address and is never parsed as a list.
      to: { name: '', address: email },
      ...mailOf(message),
      textEncoding: 'quoted-printable',
      headers: { 'Auto-Submitted': 'auto-generated' },
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  };
}

/** Excludes whatever could be parsed as a second address, a comment, a route or another header line. */
const plainAddress = /^[^\p{C}\p{Z}<>()[\]\\,;:"@]+@[^\p{C}\p{Z}<>()[\]\\,;:"@/?#%]+$/u;

function mailServer({ protocol, hostname, port, username, password }: URL) {
  const host = withoutBrackets(hostname.toLowerCase());
  const isSecure = protocol === 'smtps:';
  const isHere = isLoopback(host);
  return {
    host,
    port: Number(port) || (isSecure ? 465 : 587),
    secure: isSecure,
    // Loopback connections need no TLS, and their certificates are rarely valid. Elsewhere a password is never sent
    // without TLS, even if an attacker in the middle strips STARTTLS from the server's answer.
    ignoreTLS: isHere,
    requireTLS: !isHere && username !== '',
    ...(username && { auth: { user: decodeURIComponent(username), pass: decodeURIComponent(password) } }),
  };
}

function webhookChannel(url: URL, secret: string): Channel {
  return async (message, signal) => {
    const body = JSON.stringify(bodyOf(message));
    const time = Math.floor(Date.now() / 1000);
    const signature = createHmac('sha256', secret).update(`${time}.${body}`).digest('hex');
    const request = (url.protocol === 'https:' ? https : http).request(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'user-agent': 'Rowhouse',
        'rowhouse-signature': `t=${time},v1=${signature}`,
      },
      // No keep-alive: a connection that the other side has just closed would lose a message.
      agent: false,
      signal,
    });
    // `once` below handles the first error; later ones would have no listener.
    request.on('error', () => {});
    request.end(body);
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    // Only the status matters. The body is discarded until the deadline.
    response.on('error', () => {}).resume();
    const status = response.statusCode ?? 0;
    if (status < 200 || status > 299) throw new Error(`The webhook answered with status ${status}.`);
  };
}

function bodyOf(message: Message) {
  const { kind, email } = message;
  const expires_at = message.expiresAt?.toISOString() ?? null;
  if ('project' in message) {
    const { project, code } = message;
    return { kind, project: { slug: project.slug, name: project.name }, email, code, expires_at };
  }
  const text = message.text == null ? {} : { text: message.text };
  return { kind, account: message.account, email, link: message.link, expires_at, ...text };
}
