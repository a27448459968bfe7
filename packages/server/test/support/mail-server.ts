// A mail server for tests, which keeps what it is sent.
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';

export type KeptMail = { to: string[]; subject: string; text: string };

export async function startMailServer() {
  const mails: KeptMail[] = [];
  let isBroken = false;
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    closeTimeout: 100,
    onMailFrom: (_address, _session, done) => done(isBroken ? new Error('Not today.') : null),
    onData: (stream, { envelope }, done) => {
      text(stream).then((raw) => {
        const [head = '', ...rest] = raw.split('\r\n\r\n');
        mails.push({
          to: envelope.rcptTo.map(({ address }) => address),
          subject: /^Subject: (.*)$/m.exec(head.replace(/\r\n[ \t]+/g, ' '))?.[1]?.trim() ?? '',
          text: rest
            .join('\r\n\r\n')
            .replace(/=\r\n/g, '')
            .replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
        });
        done();
      }, done);
    },
  });
  server.on('error', () => {});
  server.listen(0, '127.0.0.1');
  await once(server.server, 'listening');
  const { port } = server.server.address() as AddressInfo;
  return {
    mails,
    delivery: {
      smtpUrl: `smtp://127.0.0.1:${port}`,
      mailFrom: 'Rowhouse <no-reply@example.com>',
      webhookUrl: null,
      webhookSecret: null,
    },
    /** From now on, it refuses mail, or takes it again. */
    setBroken: (broken: boolean) => {
      isBroken = broken;
    },
    stop: () => new Promise<void>((resolve) => server.close(() => resolve())),
  };
}
