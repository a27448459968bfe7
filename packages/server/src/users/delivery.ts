// Sends messages with codes to users, by mail or webhook. The operator configures the destination for the whole
// installation: a URL chosen by a project could reach into the operator's internal network (SSRF).
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import { createTransport, type SMTPTransportOptions } from 'nodemailer';
import { errors, RowhouseError } from '../errors.ts';

export type Message = Readonly<{
  kind: 'recovery' | 'verification' | 'email_changed';
  project: { slug: string; name: string };
  email: string;
  code: string | null;
  expiresAt: Date | null;
}>;

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

const maxInFlight = 32;
/** A project that floods the queue must leave capacity for the others. */
const maxPerProject = 8;

export function openDelivery(config: DeliveryConfig, { timeoutMs = 10_000 } = {}): Delivery {
  const channel = channelOf(config);
  const inFlight = new Set<{ slug: string; end: Promise<void> }>();
  let isStopped = false;
  return {
    isConfigured: channel !== null,
    async send(message) {
      if (!channel) throw new Error('Neither a mail server nor a webhook is configured.');
      if (isStopped) throw errors.messageNotSent(new Error('The service is being stopped.'));
      const { slug } = message.project;
      const ofProject = [...inFlight].filter((other) => other.slug === slug).length;
      if (inFlight.size >= maxInFlight || ofProject >= maxPerProject) {
        throw errors.overloaded('Too many messages are being sent.', 2);
      }
      const sending = { slug, end: inTime(channel, message, timeoutMs) };
      inFlight.add(sending);
      try {
        await sending.end;
      } catch (error) {
        // The remote server's answer goes to the log only.
        throw error instanceof RowhouseError ? error : errors.messageNotSent(error);
      } finally {
        inFlight.delete(sending);
      }
    },
    async stop() {
      isStopped = true;
      await Promise.allSettled([...inFlight].map(({ end }) => end));
    },
  };
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
  return async ({ email, ...message }, signal) => {
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
    await createTransport({ ...server, getSocket }).sendMail({
      from,
      // As an object it is one address and is never parsed as a list.
      to: { name: '', address: email },
      ...mailOf({ email, ...message }),
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
  const host = hostname.toLowerCase().replace(/^\[(.*)\]$/, '$1');
  const isSecure = protocol === 'smtps:';
  const isHere = host === 'localhost' || host === '::1' || /^127\.[\d.]+$/.test(host);
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

function mailOf({ kind, project, email, code, expiresAt }: Message): { subject: string; text: string } {
  const name = oneLine(project.name) || project.slug;
  const until = expiresAt ? `, until ${expiresAt.toISOString().slice(0, 16).replace('T', ' ')} UTC` : '';
  const { subject, why, otherwise } = {
    recovery: {
      subject: `Your recovery code for ${name}`,
      why: `Somebody asked for a new password for ${email} at ${name}.`,
      otherwise: 'If it was not you, give the code to nobody: nothing has changed.',
    },
    verification: {
      subject: `Your verification code for ${name}`,
      why: `This code shows ${name} that ${email} is your address.`,
      otherwise: 'If you do not know what this is about, give the code to nobody: nothing has changed.',
    },
    email_changed: {
      subject: `Your e-mail address at ${name} was changed`,
      why: `The account at ${name} that had the address ${email} has another one now.`,
      otherwise: `If it was not you, tell ${name} at once.`,
    },
  }[kind];
  const codeLines = code === null ? [] : [`    ${code}`, '', `It works once${until}.`, ''];
  return {
    subject,
    text: [why, '', ...codeLines, otherwise, '', `${name} (${project.slug})`, ''].join('\n'),
  };
}

// The project's owner chooses the name: it must not be able to imitate lines of the message, nor contain an encoded
// word (=?…?=), which mail clients decode in a subject.
function oneLine(text: string): string {
  return text
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .replaceAll('=?', '= ?')
    .trim();
}

function webhookChannel(url: URL, secret: string): Channel {
  return async ({ kind, project: { slug, name }, email, code, expiresAt }, signal) => {
    const expires_at = expiresAt?.toISOString() ?? null;
    const body = JSON.stringify({ kind, project: { slug, name }, email, code, expires_at });
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
