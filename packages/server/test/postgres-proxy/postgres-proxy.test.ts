import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect as connectTls } from 'node:tls';
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { until, useTestService } from '../support/helpers.ts';
import { freePort } from '../support/process.ts';
import {
  cancelRequest,
  connectPg,
  connectRaw,
  errorIn,
  everything,
  exchange,
  gssRequest,
  type Login,
  loginOf,
  openProxy,
  sslRequest,
  startupPacket,
} from '../support/proxy-clients.ts';

const rowhouse = useTestService();
let project: { slug: string; id: string; key: string };
let login: Login;

beforeAll(async () => {
  project = await rowhouse.project('Proxied');
  login = await loginOf(rowhouse, project.slug);
});

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: pg.DatabaseError) => ({ code: error.code, message: error.message }),
  );

describe('a client of the PostgreSQL proxy', () => {
  it('runs statements, notifications and many rows, in clear text and with TLS', async () => {
    const proxy = await openProxy(rowhouse);
    const ca = readFileSync(proxy.certificate);
    const ways: [string, pg.ClientConfig][] = [
      ['plain', {}],
      ['encrypted', { ssl: { ca, servername: 'localhost' } }],
    ];
    for (const [way, config] of ways) {
      const client = await connectPg(proxy.port, login, config);
      const { rows } = await client.query(
        'select $1::int + 1 as next, inet_client_addr() is not null as direct',
        [41],
      );
      expect(rows, way).toEqual([{ next: 42, direct: true }]);
      const notified = once(client, 'notification');
      await client.query('listen tea');
      await client.query(`notify tea, 'hot'`);
      expect((await notified)[0].payload).toBe('hot');
      const many = await client.query(`select n, repeat('x', 500) as x from generate_series(1, 20000) as n`);
      expect(many.rowCount).toBe(20_000);
      expect(many.rows.at(-1).n).toBe(20_000);
      await client.end();
    }
    await until('both are closed', async () => proxy.counts.open === 0);
    expect(proxy.counts.connections.accepted).toBe(2);
    expect(proxy.counts.bytes.sent).toBeGreaterThan(2 * 20_000 * 500);
  });

  it('is offered TLS only where it can be: GSS encryption is declined, bytes in clear text before TLS are refused', async () => {
    const proxy = await openProxy(rowhouse);
    const gss = await connectRaw(proxy.port);
    gss.write(gssRequest);
    expect(String((await once(gss, 'data'))[0])).toBe('N');
    gss.write(startupPacket({ user: login.user }));
    const [offer] = await once(gss, 'data');
    // PostgreSQL's own offer, without channel binding: it cannot see the client's TLS.
    expect(offer.toString('latin1').slice(9)).toBe('SCRAM-SHA-256\0\0');
    for (const first of [sslRequest, gssRequest]) {
      const answer = await exchange(proxy.port, Buffer.concat([first, startupPacket({ user: login.user })]));
      expect(errorIn(answer)).toMatchObject({ sqlstate: '08P01' });
    }
  });

  it('can start with TLS at once, if it names the protocol', async () => {
    const proxy = await openProxy(rowhouse);
    const open = async (protocols: string[]) => {
      const socket = connectTls({
        host: '127.0.0.1',
        port: proxy.port,
        servername: 'localhost',
        ca: readFileSync(proxy.certificate),
        ALPNProtocols: protocols,
      });
      socket.on('error', () => {});
      await once(socket, 'secureConnect');
      return socket;
    };
    const socket = await open(['postgresql']);
    expect(socket.alpnProtocol).toBe('postgresql');
    socket.write(startupPacket({ user: login.user, database: login.database }));
    expect(String((await once(socket, 'data'))[0])).toContain('SCRAM-SHA-256');
    socket.destroy();
    expect(errorIn(await everything(await open([])))).toMatchObject({ sqlstate: '08P01' });
    expect(await failureOf(open(['http/1.1']))).not.toBeNull();
  });

  it('cannot tell an unknown project from a wrong password', async () => {
    const proxy = await openProxy(rowhouse);
    const unknown = `p_${'x'.repeat(16)}`;
    const wrong = await failureOf(connectPg(proxy.port, { ...login, password: 'wrong' }));
    const nowhere = await failureOf(
      connectPg(proxy.port, { user: unknown, database: unknown, password: 'wrong' }),
    );
    expect(wrong?.code).toBe('28P01');
    expect(nowhere?.code).toBe('28P01');
    expect(nowhere?.message.replace(unknown, login.user)).toBe(wrong?.message);
    expect(proxy.counts.connections).toMatchObject({ accepted: 0, password: 2 });
  });

  it('is refused unless it names a project, without asking PostgreSQL', async () => {
    const proxy = await openProxy(rowhouse);
    const { server, control } = rowhouse.service.deps;
    const [row] = await control.query<{ name: string }>(sql`select current_database() as name`);
    const { user } = server.address;
    const refused: [string, string][] = [
      [user, 'postgres'],
      [user, 'template1'],
      [user, row?.name ?? ''],
      [user, login.database],
      [login.user, 'postgres'],
      [login.user, row?.name ?? ''],
      [`${login.user}_auth`, login.database],
      [`${login.user}_user`, login.database],
      [`${login.user}_anon`, login.database],
      ['authenticated', login.database],
      [login.user.toUpperCase(), login.database.toUpperCase()],
      [`${login.user} `, `${login.user} `],
      [login.user, `p_${'x'.repeat(16)}`],
      ['', login.database],
    ];
    for (const [asUser, database] of refused) {
      const answer = errorIn(await exchange(proxy.port, startupPacket({ user: asUser, database })));
      expect(answer.sqlstate, `${asUser} in ${database}`).toBe('28000');
    }
    for (const value of ['true', 'database', 'on', '1', '']) {
      const packet = startupPacket({ user: login.user, database: login.database, replication: value });
      expect(errorIn(await exchange(proxy.port, packet)).sqlstate, value).toBe('42501');
    }
    const twice = startupPacket([
      ['user', login.user],
      ['database', login.database],
      ['user', user],
    ]);
    expect(errorIn(await exchange(proxy.port, twice)).sqlstate).toBe('08P01');
    const old = startupPacket({ user: login.user }, 2 << 16);
    expect(errorIn(await exchange(proxy.port, old)).sqlstate).toBe('0A000');
    expect(proxy.counts.bytes.sent).toBe(0);
  });

  it('speaks protocol 3.2, with a longer cancel key', async () => {
    const proxy = await openProxy(rowhouse);
    const socket = await connectRaw(proxy.port);
    socket.write(startupPacket({ user: login.user, database: login.database }, (3 << 16) | 2));
    const [answer] = await once(socket, 'data');
    expect(['R', 'v']).toContain(String.fromCharCode(answer[0]));
  });
});

describe('a statement through the PostgreSQL proxy', () => {
  const sleeping = async (client: pg.Client) => {
    const outcome = failureOf(client.query('select pg_sleep(60)'));
    await until('it runs', async () => {
      const [row] = await rowhouse.service.deps.server.maintenance.query<{ runs: boolean }>(sql`
        select exists (select from pg_stat_activity
                       where datname = ${login.database} and state = 'active' and query like '%pg_sleep(60)%') as runs`);
      return row?.runs;
    });
    // Not the promise itself, for which an async function would wait.
    return { outcome };
  };
  const keyOf = (client: pg.Client) => {
    const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
    const secret = Buffer.alloc(4);
    secret.writeInt32BE(secretKey);
    return { pid: processID, secret };
  };

  it('is cancelled by the process that carries it, and by another one', async () => {
    const proxy = await openProxy(rowhouse);
    const other = await openProxy(rowhouse);
    for (const port of [proxy.port, other.port]) {
      const client = await connectPg(proxy.port, login);
      const { pid, secret } = keyOf(client);
      const { outcome } = await sleeping(client);
      await exchange(port, cancelRequest(pid, Buffer.from(secret).fill(7)));
      await exchange(port, cancelRequest(pid, secret));
      expect((await outcome)?.code).toBe('57014');
      expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
      await client.end();
    }
    expect(proxy.counts.cancels.sent).toBe(2);
    expect(other.counts.cancels.sent).toBe(2);
  });

  it('ends with 57P01 when the proxy stops', async () => {
    const proxy = await openProxy(rowhouse);
    const client = await connectPg(proxy.port, login);
    const encrypted = await connectPg(proxy.port, login, { ssl: { rejectUnauthorized: false } });
    const halfOpen = await connectRaw(proxy.port);
    const { outcome } = await sleeping(client);
    const idle = once(encrypted, 'error');
    const stopped = proxy.stop();
    expect((await outcome)?.code).toBe('57P01');
    expect((await idle)[0].code).toBe('57P01');
    expect(await everything(halfOpen)).toEqual(Buffer.alloc(0));
    await stopped;
    await until('all are closed', async () => proxy.counts.open === 0);
  });

  it('ends with 57P01 when the key of the project is rotated, and the new password is asked for', async () => {
    const rotated = await rowhouse.project('Rotated');
    const before = await loginOf(rowhouse, rotated.slug);
    const proxy = await openProxy(rowhouse);
    const client = await connectPg(proxy.port, before);
    const ended = once(client, 'error');
    await rowhouse.call('POST', `/projects/${rotated.slug}/keys/rotate`, { body: { grace_seconds: 0 } });
    expect((await ended)[0].code).toBe('57P01');
    expect((await failureOf(connectPg(proxy.port, before)))?.code).toBe('28P01');
    const after = await loginOf(rowhouse, rotated.slug);
    expect((await (await connectPg(proxy.port, after)).query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  it('waits in PostgreSQL, not in memory, while its client does not read', { tags: 'long' }, async () => {
    const proxy = await openProxy(rowhouse);
    const client = await connectPg(proxy.port, login);
    const { stream } = (client as unknown as { connection: { stream: import('node:net').Socket } })
      .connection;
    const rows = 100_000;
    const result = client.query(`select repeat('x', 1000) as x from generate_series(1, ${rows})`);
    stream.pause();
    let last = -1;
    await until('nothing flows any more', async () => {
      const isStill = proxy.counts.bytes.sent === last && last > 0;
      last = proxy.counts.bytes.sent;
      return isStill;
    });
    // Only the buffers of the kernel at both ends and 128 kB in the process are filled, of 100 MB.
    expect(proxy.counts.bytes.sent).toBeLessThan(20 * 1024 * 1024);
    stream.resume();
    expect((await result).rowCount).toBe(rows);
  });
});

describe('the PostgreSQL proxy', () => {
  it('says that PostgreSQL is unavailable', async () => {
    const { server } = rowhouse.service.deps;
    const port = await freePort();
    const address = { ...server.address, host: '127.0.0.1', port };
    const proxy = await openProxy(rowhouse, { serverOf: async () => ({ ...server, address }) });
    const packet = startupPacket({ user: login.user, database: login.database });
    expect(errorIn(await exchange(proxy.port, packet))).toEqual({
      sqlstate: '57P03',
      message: 'the PostgreSQL server of this project is unavailable',
      hint: 'Try again in a few seconds.',
    });
    expect(proxy.counts.connections.unavailable).toBe(1);
  });

  it('accepts so many connections, and the next one when one has ended', async () => {
    const proxy = await openProxy(rowhouse, { maxConnections: 2 });
    const [first] = [await connectPg(proxy.port, login), await connectPg(proxy.port, login)];
    expect((await failureOf(connectPg(proxy.port, login)))?.code).toBe('53300');
    await first.end();
    await until('it is closed', async () => proxy.counts.open === 1);
    await connectPg(proxy.port, login);
  });

  it('keeps some of its connections for projects that have few', async () => {
    const other = await loginOf(rowhouse, (await rowhouse.project('Other')).slug);
    const proxy = await openProxy(rowhouse, { maxConnections: 4 });
    for (let n = 0; n < 3; n++) await connectPg(proxy.port, login);
    expect((await failureOf(connectPg(proxy.port, login)))?.code).toBe('53300');
    await connectPg(proxy.port, other);
    expect((await failureOf(connectPg(proxy.port, other)))?.code).toBe('53300');
    expect(proxy.counts.connections.limit).toBe(2);
  });

  it('ends a startup and a login that take too long', async () => {
    const proxy = await openProxy(rowhouse, { limits: { startupMs: 300, loginMs: 300 } });
    const silent = await connectRaw(proxy.port);
    const half = await connectRaw(proxy.port);
    half.write(sslRequest.subarray(0, 5));
    const unanswered = await connectRaw(proxy.port);
    unanswered.write(startupPacket({ user: login.user, database: login.database }));
    expect(await everything(silent)).toEqual(Buffer.alloc(0));
    expect(await everything(half)).toEqual(Buffer.alloc(0));
    const answer = await everything(unanswered);
    const offer = answer.readInt32BE(1) + 1;
    expect(errorIn(answer.subarray(offer)).sqlstate).toBe('57014');
    await until('all are counted', async () => proxy.counts.connections.timeout === 3);
    expect(proxy.counts.open).toBe(0);
  });
});
