// Messages with codes, to a real SMTP server and to a real web server.
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { networkInterfaces } from 'node:os';
import { text } from 'node:stream/consumers';
import { SMTPServer, type SMTPServerOptions, type SMTPServerSession } from 'smtp-server';
import { afterEach, describe, expect, it } from 'vitest';
import { makeCode } from '../../../src/access/end-users/one-time-codes.ts';
import { type Delivery, openDelivery } from '../../../src/access/mail/delivery.ts';
import type { UserMessage } from '../../../src/access/mail/mail-texts.ts';
import { RowhouseError } from '../../../src/errors/errors.ts';
import { errorBody } from '../../../src/http/response/error-response.ts';
import { openGate } from '../../support/helpers.ts';

type Mail = { from: string; to: string[]; headers: Map<string, string>; text: string };

const nothing = { smtpUrl: null, mailFrom: null, webhookUrl: null, webhookSecret: null };
const secret = 'a secret of the operator';
const message: UserMessage = {
  kind: 'recovery',
  project: { slug: 'my-shop', name: 'My Shop', accountId: 'shops' },
  email: 'ada@example.com',
  code: makeCode(),
  expiresAt: new Date('2030-01-02T03:04:05Z'),
};

const opened: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (let close = opened.pop(); close; close = opened.pop()) await close();
});

function open(config: Partial<Parameters<typeof openDelivery>[0]>, timeoutMs?: number): Delivery {
  const delivery = openDelivery({ ...nothing, ...config }, { ...(timeoutMs && { timeoutMs }) });
  opened.push(delivery.stop);
  return delivery;
}

const byMail = (smtpUrl: string, timeoutMs?: number) =>
  open({ smtpUrl, mailFrom: 'Rowhouse <no-reply@example.com>' }, timeoutMs);
const byWebhook = (webhookUrl: string, timeoutMs?: number) =>
  open({ webhookUrl, webhookSecret: secret }, timeoutMs);

async function failureOf(sending: Promise<void>): Promise<RowhouseError> {
  const error = await sending.then(
    () => null,
    (failure) => failure,
  );
  expect(error).toBeInstanceOf(RowhouseError);
  return error;
}

/** 503, and not a word of the other side's. */
async function expectNotSent(sending: Promise<void>): Promise<RowhouseError> {
  const failure = await failureOf(sending);
  expect(failure).toMatchObject({ code: 'unavailable', status: 503, retryAfterS: 5 });
  expect(errorBody(failure, 'r').error).toEqual({
    code: 'unavailable',
    message: 'The message could not be sent.',
    hint: 'Retry later. If this persists, the operator finds the reason in the log of the service under this request id.',
  });
  expect(failure.cause).toBeInstanceOf(Error);
  return failure;
}

/** Bare TCP: what a client says is kept, and its sockets are counted. */
async function listen(onSocket: (socket: net.Socket) => void, host = '127.0.0.1') {
  const sockets = new Set<net.Socket>();
  const said: string[] = [];
  const server = net.createServer((socket) => {
    sockets.add(socket);
    socket.on('data', (data) => said.push(data.toString('latin1')));
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
    onSocket(socket);
  });
  server.listen(0, host);
  await once(server, 'listening');
  opened.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { sockets, said, port: (server.address() as net.AddressInfo).port };
}

describe('without a delivery setting', () => {
  it('no message is sent', async () => {
    const delivery = open({});
    expect(delivery.isConfigured).toBe(false);
    await expect(delivery.send(message)).rejects.toThrow('configured');
  });
});

describe('delivery by mail', () => {
  async function startServer(options: SMTPServerOptions = {}) {
    const mails: Mail[] = [];
    const server = new SMTPServer({
      disabledCommands: ['STARTTLS'],
      authOptional: true,
      allowInsecureAuth: true,
      closeTimeout: 100,
      onData: (stream, session, done) => {
        text(stream).then((raw) => {
          mails.push(readMail(raw, session));
          done();
        }, done);
      },
      ...options,
    });
    server.on('error', () => {});
    server.listen(0, '127.0.0.1');
    await once(server.server, 'listening');
    opened.push(() => new Promise<void>((resolve) => server.close(() => resolve())));
    const { port } = server.server.address() as net.AddressInfo;
    return { mails, port, url: `smtp://127.0.0.1:${port}` };
  }

  function readMail(raw: string, { envelope }: SMTPServerSession): Mail {
    const [head = '', ...rest] = raw.split('\r\n\r\n');
    const lines = head.replace(/\r\n[ \t]+/g, ' ').split('\r\n');
    const headers = new Map(
      lines.map((line): [string, string] => {
        const at = line.indexOf(': ');
        return [line.slice(0, at).toLowerCase(), line.slice(at + 2)];
      }),
    );
    expect(headers.size).toBe(lines.length);
    return {
      from: envelope.mailFrom ? envelope.mailFrom.address : '',
      to: envelope.rcptTo.map(({ address }) => address),
      headers,
      text: fromQuotedPrintable(rest.join('\r\n\r\n')).replaceAll('\r\n', '\n'),
    };
  }

  function fromQuotedPrintable(encoded: string): string {
    const bytes = encoded
      .replace(/=\r\n/g, '')
      .replace(/=([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
    return Buffer.from(bytes, 'latin1').toString('utf8');
  }

  /** Encoded words of RFC 2047. */
  function readWords(value: string): string {
    return value
      .replace(/\?=\s+=\?/g, '?==?')
      .replace(/=\?utf-8\?([BQ])\?([^?]*)\?=/gi, (_, encoding, encoded) =>
        encoding.toUpperCase() === 'B'
          ? Buffer.from(encoded, 'base64').toString()
          : fromQuotedPrintable(encoded.replaceAll('_', ' ')),
      );
  }

  it('sends a code to its user in plain text that names the project', async () => {
    const { mails, url } = await startServer();
    const delivery = byMail(url);
    expect(delivery.isConfigured).toBe(true);
    await delivery.send(message);
    const [mail] = mails;
    expect(mail).toMatchObject({ from: 'no-reply@example.com', to: ['ada@example.com'] });
    expect(mail?.headers.get('from')).toBe('Rowhouse <no-reply@example.com>');
    expect(mail?.headers.get('to')).toBe('ada@example.com');
    expect(mail?.headers.get('subject')).toBe('Your recovery code for My Shop');
    expect(mail?.headers.get('content-type')).toContain('text/plain');
    expect(mail?.headers.get('auto-submitted')).toBe('auto-generated');
    expect(mail?.text).toContain(`\n    ${message.code}\n`);
    expect(mail?.text).toContain('It works once, until 2030-01-02 03:04 UTC.');
    expect(mail?.text).toContain('My Shop (my-shop)');
  });

  it('has its own text for each kind of message, and no code in a message without one', async () => {
    const { mails, url } = await startServer();
    const delivery = byMail(url);
    await delivery.send({ ...message, kind: 'verification', expiresAt: null });
    await delivery.send({ ...message, kind: 'email_changed', code: null, expiresAt: null });
    expect(mails.map(({ headers }) => headers.get('subject'))).toEqual([
      'Your verification code for My Shop',
      'Your email address at My Shop was changed',
    ]);
    expect(mails[0]?.text).toContain(`\n    ${message.code}\n\nIt works once.\n`);
    expect(mails[1]?.text).not.toContain('code');
  });

  it('takes project names in any script, and none adds a header, a line or a recipient', async () => {
    const { mails, url } = await startServer();
    const delivery = byMail(url);
    const expected = [...'auto-submitted content-transfer-encoding content-type date from'.split(' ')];
    expected.push('message-id', 'mime-version', 'subject', 'to');
    const names = {
      'Schöne Bücher 愛 🍵': 'Schöne Bücher 愛 🍵',
      'x\r\nBcc: eve@example.com': 'x Bcc: eve@example.com',
      'x\nBcc: eve@example.com\n\nhello': 'x Bcc: eve@example.com hello',
      'x\r\n.\r\nRCPT TO:<eve@example.com>': 'x . RCPT TO:<eve@example.com>',
      'x\u2028Bcc: eve@example.com\u0085y\0z\v': 'x Bcc: eve@example.com y z',
      '\u202egnp.exe\u200b': 'gnp.exe',
      '=?utf-8?Q?x=0D=0ABcc:_eve@example.com?=': '= ?utf-8?Q?x=0D=0ABcc:_eve@example.com?=',
      '\u200b': 'my-shop',
    };
    for (const name of Object.keys(names)) {
      await delivery.send({ ...message, project: { slug: 'my-shop', name, accountId: 'shops' } });
    }
    expect(mails.length).toBe(Object.keys(names).length);
    for (const [index, shown] of Object.values(names).entries()) {
      const { to, headers, text: body } = mails[index] as Mail;
      expect(to).toEqual(['ada@example.com']);
      expect([...headers.keys()].sort()).toEqual(expected);
      expect(readWords(headers.get('subject') ?? '')).toBe(`Your recovery code for ${shown}`);
      expect(body.split('\n').filter((line) => line.includes(shown)).length).toBe(2);
      expect(body.split('\n').length).toBe(10);
    }
  });

  it('refuses an address that could be read as several, with 400 and no mail', async () => {
    const { mails, url } = await startServer();
    const delivery = byMail(url);
    const addresses = [
      'ada@example.com, eve@example.com',
      'ada@example.com,eve@example.com',
      'ada@example.com;eve@example.com',
      'ada@example.com\r\nBcc: eve@example.com',
      'ada@example.com\nRCPT TO:<eve@example.com>',
      'ada@example.com\0',
      'ada@example.com>',
      'Ada <eve@example.com>',
      '<eve@example.com>',
      'eve@example.com@example.org',
      '"eve@example.com"@example.org',
      'ada(eve@example.com)@example.org',
      '@relay.example:ada@example.com',
      'group:ada@example.com',
      'root@[127.0.0.1]',
      'ada@example.com/x',
      'ada@example.com%00',
      'ada@example.com SIZE=1',
      'ada\u2028@example.com',
      'ada\u200b@example.com',
      'ada＠example.com',
      'ada@',
      '@example.com',
      'ada',
      '',
    ];
    for (const email of addresses) {
      const failure = await failureOf(delivery.send({ ...message, email }));
      expect(failure, email).toMatchObject({ code: 'invalid_request', status: 400 });
    }
    expect(mails).toEqual([]);
    await delivery.send({ ...message, email: "o'hara+tag_{x}=1|2~`!#$%&*/?^@mail.example.com" });
    expect(mails[0]?.to).toEqual(["o'hara+tag_{x}=1|2~`!#$%&*/?^@mail.example.com"]);
  });

  it('sends to addresses in any script', async () => {
    const { mails, url } = await startServer();
    await byMail(url).send({ ...message, email: 'zoë@exämple.com' });
    expect(mails[0]?.to).toEqual(['zoë@exämple.com']);
    expect(mails[0]?.text).toContain('zoë@exämple.com');
    // A host has a form in ASCII, so it needs nothing of the server.
    const old = await startServer({ hideSMTPUTF8: true });
    await byMail(old.url).send({ ...message, email: 'ada@exämple.com' });
    expect(old.mails[0]?.headers.get('to')).toBe('ada@xn--exmple-cua.com');
  });

  it('logs in with the user and password of the SMTP URL, and not with others', async () => {
    const { mails, port } = await startServer({
      authOptional: false,
      onAuth: ({ username, password }, _, done) =>
        username === 'mailer@example.com' && password === 'p:/ä%'
          ? done(null, { user: username })
          : done(new Error(`those of ${username} are wrong`)),
    });
    const as = (password: string) =>
      byMail(`smtp://mailer%40example.com:${encodeURIComponent(password)}@127.0.0.1:${port}`);
    await as('p:/ä%').send(message);
    expect(mails.length).toBe(1);
    const { cause } = await expectNotSent(as('hunter2').send(message));
    expect((cause as Error).message).toContain('those of mailer@example.com are wrong');
    expect(JSON.stringify(cause)).not.toContain('hunter2');
    await expectNotSent(byMail(`smtp://127.0.0.1:${port}`).send(message));
    expect(mails.length).toBe(1);
  });

  it('reports a refusal of the mail server in the log only', async () => {
    const refuse = (words: string) => Object.assign(new Error(words), { responseCode: 550 });
    const atRecipient = await startServer({ onRcptTo: (_, __, done) => done(refuse('no such user')) });
    const atEnd = await startServer({
      onData: (stream, _, done) => {
        stream.resume().on('end', () => done(refuse('looks like spam')));
      },
    });
    const first = await expectNotSent(byMail(atRecipient.url).send(message));
    expect((first.cause as Error).message).toContain('no such user');
    const second = await expectNotSent(byMail(atEnd.url).send(message));
    expect((second.cause as Error).message).toContain('looks like spam');
  });

  it('gives up within its time on a server that is down, silent, endlessly slow or not a mail server', async () => {
    const away = await listen(() => {});
    for (const close of opened.splice(0)) await close();
    await expectNotSent(byMail(`smtp://127.0.0.1:${away.port}`).send(message));

    const drip = (socket: net.Socket, piece: string) => {
      const timer = setInterval(() => socket.write(piece), 20);
      socket.on('close', () => clearInterval(timer));
    };
    const behaviours: ((socket: net.Socket) => void)[] = [
      () => {},
      (socket) => drip(socket, '220-wait\r\n'),
      (socket) => drip(socket, 'x'),
      (socket) => {
        socket.write('220 hello\r\n');
        socket.once('data', () => drip(socket, '250-wait\r\n'));
      },
      (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'),
      (socket) => socket.resetAndDestroy(),
      (socket) => socket.end(),
    ];
    for (const behave of behaviours) {
      for (const scheme of ['smtp', 'smtps']) {
        const { port, sockets } = await listen(behave);
        await expectNotSent(byMail(`${scheme}://127.0.0.1:${port}`, 300).send(message));
        await expect.poll(() => sockets.size).toBe(0);
      }
    }
    await expectNotSent(byMail('smtp://no-such-host.invalid:25').send(message));
  });

  const elsewhere = Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .find(({ family, internal }) => family === 'IPv4' && !internal)?.address;

  it.skipIf(!elsewhere)('sends no password to another machine without TLS', async () => {
    const { port, said } = await listen((socket) => {
      socket.write('220 hello\r\n');
      socket.on('data', (data) => {
        if (/^(EHLO|HELO)/.test(data.toString())) socket.write('250-hello\r\n250 AUTH PLAIN LOGIN\r\n');
        else socket.write('250 fine\r\n');
      });
    }, elsewhere);
    await expectNotSent(byMail(`smtp://u:hunter2@${elsewhere}:${port}`, 2000).send(message));
    expect(said.join('')).toContain('EHLO');
    expect(said.join('')).not.toMatch(/AUTH|MAIL FROM|rh_code_/);
  });

  it('sends a few messages at a time, fewer of one account, and finishes them before it stops', async () => {
    const { mails, url, release } = await startStalled();
    const delivery = byMail(url);
    const of = (accountId: string) =>
      delivery.send({ ...message, project: { slug: accountId, name: accountId, accountId } });
    const running = ['one', 'two', 'three'].flatMap((account) => [
      ...Array.from({ length: 8 }, () => of(account)),
      expectOverloaded(of(account)),
    ]);
    // The last places are for accounts that have none.
    const others = ['four', 'five', 'six', 'seven', 'eight', 'nine', 'ten', 'eleven'];
    running.push(...others.map(of));
    await expectOverloaded(of('four'));
    await expectOverloaded(of('twelve'));
    const stopped = delivery.stop();
    await expectNotSent(of('one'));
    expect(await Promise.race([stopped.then(() => 'stopped'), Promise.resolve('waiting')])).toBe('waiting');
    release();
    await Promise.all([...running, stopped]);
    expect(mails.length).toBe(32);
  });

  it('limits the messages of one person, and leaves room for others', async () => {
    const { url, release } = await startStalled();
    const delivery = byMail(url);
    const of = (sentBy: string) =>
      delivery.send({
        kind: 'member_email',
        account: null,
        email: 'new@example.com',
        link: 'x',
        expiresAt: null,
        sentBy,
      });
    const running = Array.from({ length: 8 }, () => of('one'));
    await expectOverloaded(of('one'));
    running.push(of('two'));
    release();
    await Promise.all(running);
  });

  it('frees the place of a message that failed', async () => {
    const { url } = await startServer({ onRcptTo: (_, __, done) => done(new Error('no')) });
    const delivery = byMail(url);
    for (let turn = 0; turn < 3; turn++) {
      await Promise.all(Array.from({ length: 8 }, () => expectNotSent(delivery.send(message))));
    }
  });

  /** Takes no message before `release`. */
  async function startStalled() {
    const gate = openGate();
    const server = await startServer({
      onRcptTo: (_, __, done) => {
        gate.passed.then(() => done());
      },
    });
    return { ...server, release: gate.open };
  }

  async function expectOverloaded(sending: Promise<void>): Promise<void> {
    const failure = await failureOf(sending);
    expect(failure).toMatchObject({ code: 'overloaded', status: 429, retryAfterS: 10 });
  }
});

describe('delivery to a webhook', () => {
  type Seen = {
    method: string | undefined;
    url: string | undefined;
    headers: http.IncomingHttpHeaders;
    body: string;
  };

  async function startServer(answer: (response: http.ServerResponse, seen: Seen) => void) {
    const seen: Seen[] = [];
    const server = http.createServer(async (request, response) => {
      const { method, url, headers } = request;
      const whole = { method, url, headers, body: await text(request) };
      seen.push(whole);
      answer(response, whole);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    opened.push(async () => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as net.AddressInfo;
    return { seen, server, url: `http://127.0.0.1:${port}/hooks/rowhouse?x=1` };
  }

  it('sends a message as JSON, signed together with the time', async () => {
    const { seen, url } = await startServer((response) => response.end('thanks'));
    const delivery = byWebhook(url);
    expect(delivery.isConfigured).toBe(true);
    await delivery.send({
      ...message,
      project: { slug: 'my-shop', name: 'Schöne Bücher 愛', accountId: 'shops' },
    });
    const [{ method, url: path, headers, body }] = seen as [Seen];
    expect({ method, path }).toEqual({ method: 'POST', path: '/hooks/rowhouse?x=1' });
    expect(headers['content-type']).toBe('application/json');
    expect(JSON.parse(body)).toEqual({
      kind: 'recovery',
      project: { slug: 'my-shop', name: 'Schöne Bücher 愛' },
      email: 'ada@example.com',
      code: message.code,
      expires_at: '2030-01-02T03:04:05.000Z',
    });
    const [, time = '', signature] =
      /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['rowhouse-signature'])) ?? [];
    expect(Math.abs(Number(time) - Date.now() / 1000)).toBeLessThan(60);
    expect(signature).toBe(createHmac('sha256', secret).update(`${time}.${body}`).digest('hex'));
  });

  it('sends null without a code, only the documented fields, and any text safely', async () => {
    const { seen, url } = await startServer((response) => response.writeHead(204).end());
    const project = { slug: 'my-shop', name: 'x"\r\n\0\u2028', id: 'internal', accountId: 'shops' };
    const email = 'ada@example.com\r\nHost: evil';
    await byWebhook(url).send({ kind: 'email_changed', project, email, code: null, expiresAt: null });
    expect(JSON.parse(seen[0]?.body ?? '')).toEqual({
      kind: 'email_changed',
      project: { slug: 'my-shop', name: project.name },
      email,
      code: null,
      expires_at: null,
    });
  });

  it('treats every 2xx as success and everything else as failure, and follows no redirect', async () => {
    const elsewhere = await startServer((response) => response.end());
    let status = 200;
    const { seen, url } = await startServer((response) => {
      response.writeHead(status, { location: elsewhere.url }).end(`words of the webhook ${secret}`);
    });
    const delivery = byWebhook(url);
    for (status of [200, 201, 202, 204, 299]) await delivery.send(message);
    for (status of [300, 301, 302, 303, 304, 307, 308, 400, 401, 404, 410, 429, 500, 503]) {
      const { cause } = await expectNotSent(delivery.send(message));
      expect((cause as Error).message).toBe(`The webhook answered with status ${status}.`);
    }
    expect(seen.length).toBe(19);
    expect(elsewhere.seen).toEqual([]);
  });

  it('gives up within its time on a webhook that is down, silent, endlessly slow or not a web server', async () => {
    const away = await listen(() => {});
    for (const close of opened.splice(0)) await close();
    await expectNotSent(byWebhook(`http://127.0.0.1:${away.port}`).send(message));

    const behaviours: ((socket: net.Socket) => void)[] = [
      () => {},
      (socket) => {
        const timer = setInterval(() => socket.write('HTTP/1.1 200 OK\r\nx: y\r\n'.slice(0, 5)), 20);
        socket.on('close', () => clearInterval(timer));
      },
      (socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        const timer = setInterval(() => socket.write('x: y\r\n'), 20);
        socket.on('close', () => clearInterval(timer));
      },
      (socket) => socket.write('HTTP/1.1 100 Continue\r\n\r\n'),
      (socket) => socket.write('HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
      (socket) => socket.end('220 mail.example.com ESMTP\r\n'),
      (socket) => socket.resetAndDestroy(),
      (socket) => socket.end(),
    ];
    for (const behave of behaviours) {
      const { port, sockets } = await listen(behave);
      await expectNotSent(byWebhook(`http://127.0.0.1:${port}`, 300).send(message));
      await expect.poll(() => sockets.size).toBe(0);
    }
    // TLS with what does not speak it, and a name that does not exist.
    const { port } = await listen((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n'));
    await expectNotSent(byWebhook(`https://127.0.0.1:${port}`).send(message));
    await expectNotSent(byWebhook('http://no-such-host.invalid').send(message));
  });

  it('takes the status of an endless answer and closes the connection', async () => {
    const { port, sockets } = await listen((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n');
      const timer = setInterval(() => socket.write('1\r\nx\r\n'), 20);
      socket.on('close', () => clearInterval(timer));
    });
    await byWebhook(`http://127.0.0.1:${port}`, 500).send(message);
    await expect.poll(() => sockets.size, { timeout: 10_000 }).toBe(0);
  });
});
