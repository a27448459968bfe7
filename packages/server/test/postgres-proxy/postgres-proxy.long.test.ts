// Hostile clients of the PostgreSQL proxy, and psql. Each test proves afterwards that a neighbour noticed nothing.
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Socket } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import type pg from 'pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { maxDirectSessions } from '../../src/settings/limits/direct-connections.ts';
import { until, useTestService } from '../support/helpers.ts';
import {
  connectPg,
  connectRaw,
  errorIn,
  everything,
  exchange,
  type Login,
  loginOf,
  openProxy,
  sslRequest,
  startupPacket,
  type TestProxy,
} from '../support/proxy-clients.ts';
import { seed, seeded } from '../support/random.ts';

const rowhouse = useTestService();
let login: Login;
let neighbour: Login;

beforeAll(async () => {
  const [mine, other] = [await rowhouse.project('Hostile'), await rowhouse.project('Neighbour')];
  login = await loginOf(rowhouse, mine.slug);
  neighbour = await loginOf(rowhouse, other.slug);
});

const startup = () => startupPacket({ user: login.user, database: login.database });

/** From another address than the attack. */
async function neighbourWorks({ port }: TestProxy): Promise<void> {
  const stream = () => {
    const socket = new Socket();
    const open = socket.connect.bind(socket);
    return Object.assign(socket, {
      connect: () => open({ host: '127.0.0.1', port, localAddress: '127.0.0.2' }),
    });
  };
  const client = await connectPg(port, neighbour, { stream } as pg.ClientConfig);
  expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  await client.end();
  const { status } = await rowhouse.call('GET', '/readyz');
  expect(status).toBe(200);
}

/** Sessions of a role that have not logged in yet have no name in pg_stat_activity. */
async function countLogins(): Promise<number> {
  const [row] = await rowhouse.service.deps.server.maintenance.query<{ count: number }>(sql`
    select count(*)::int as count from pg_stat_activity
    where backend_type = 'client backend' and datid is null and usename is null`);
  return row?.count ?? 0;
}

/** Whatever the proxy sends until it closes the connection, within its time limit for startups. */
const send = (proxy: TestProxy, bytes: Buffer) => exchange(proxy.port, bytes);

describe('the PostgreSQL proxy', () => {
  it('survives garbage, and tells a client nothing but an error', async () => {
    const proxy = await openProxy(rowhouse, { limits: { startupMs: 1_000, loginMs: 1_000 } });
    const random = seeded(seed);
    const mutated = () => {
      const bytes = Buffer.from(random.chance(0.5) ? startup() : sslRequest);
      for (let n = random.below(6); n >= 0; n--) bytes[random.below(bytes.length)] = random.below(256);
      return bytes.subarray(0, 1 + random.below(bytes.length));
    };
    const tlsRecord = Buffer.from([22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]);
    const attacks = [
      ...Array.from({ length: 150 }, () => randomBytes(1 + random.below(2_000))),
      ...Array.from({ length: 300 }, mutated),
      Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'),
      Buffer.from([0x7f, 0xff, 0xff, 0xff]),
      Buffer.from([0, 0, 0x27, 0x10, 0, 3, 0, 0, ...Buffer.alloc(20_000, 65)]),
      Buffer.concat([tlsRecord, randomBytes(1_000)]),
      Buffer.concat([startup(), randomBytes(200_000)]),
      Buffer.concat([startup(), Buffer.from([112, 0x7f, 0xff, 0xff, 0xff]), Buffer.alloc(100_000)]),
    ];
    for (let at = 0; at < attacks.length; at += 50) {
      const answers = await Promise.all(attacks.slice(at, at + 50).map((bytes) => send(proxy, bytes)));
      // E: an error; S, N: an offer of encryption; R: PostgreSQL asks for the password; a TLS alert; or nothing.
      for (const answer of answers)
        if (answer.length > 0) expect('ESNR\x15').toContain(String.fromCharCode(answer[0] ?? 0));
    }
    const garbled = await connectRaw(proxy.port);
    garbled.write(sslRequest);
    garbled.once('data', () => garbled.write(randomBytes(5_000)));
    await everything(garbled);
    expect(proxy.counts.connections.accepted).toBe(0);
    await neighbourWorks(proxy);
    await until('PostgreSQL has none of them', async () => (await countLogins()) === 0);
    // A flood fills neither the memory nor the log.
    expect(proxy.log.filter(([, message]) => message.includes('refused')).length).toBeLessThan(200);
  });

  it('keeps 1,000 half-open connections from disturbing others', async () => {
    const proxy = await openProxy(rowhouse, { limits: { startupMs: 5_000 } });
    const sockets = await Promise.all(Array.from({ length: 1_000 }, () => connectRaw(proxy.port)));
    const ends = sockets.map(everything);
    for (const [n, socket] of sockets.entries()) if (n % 2) socket.write(startup().subarray(0, 10));
    await until('most are refused', async () => proxy.counts.connections.half_open === 800);
    await neighbourWorks(proxy);
    const answers = await Promise.all(ends);
    const refused = answers.filter((answer) => answer.length > 0).map((answer) => errorIn(answer).sqlstate);
    expect(refused).toEqual(Array.from({ length: 800 }, () => '53300'));
    await until('the others were closed', async () => proxy.counts.connections.timeout === 200);
    // The address can come in again.
    const client = await connectPg(proxy.port, login);
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  });

  it('lets few logins that hang into PostgreSQL, and others in between', async () => {
    const proxy = await openProxy(rowhouse, { limits: { loginMs: 3_000 } });
    const sockets = await Promise.all(Array.from({ length: 100 }, () => connectRaw(proxy.port)));
    const ends = sockets.map(everything);
    for (const socket of sockets) socket.write(startup());
    await until('they are there', async () => (await countLogins()) >= 16);
    for (let n = 0; n < 5; n++) {
      // 16 of these, and those of other tests.
      expect(await countLogins()).toBeLessThan(50);
      await neighbourWorks(proxy);
    }
    await Promise.all(ends);
    expect(proxy.counts.open).toBe(0);
    await until('none is left in PostgreSQL', async () => (await countLogins()) === 0);
  });

  it('slows down an address that guesses passwords, or opens many connections with TLS, and no other', async () => {
    const proxy = await openProxy(rowhouse, {
      limits: {
        logins: { total: 2, perAddress: 1 },
        penaltyMs: 300,
        handshakes: { total: 100, perAddress: 3 },
      },
    });
    const guess = () => connectPg(proxy.port, { ...login, password: 'guess' }).catch(({ code }) => code);
    const startedAt = performance.now();
    const guesses = Promise.all([guess(), guess(), guess(), guess()]);
    await neighbourWorks(proxy);
    expect(await guesses).toEqual(['28P01', '28P01', '28P01', '28P01']);
    expect(performance.now() - startedAt).toBeGreaterThan(900);
    const beganAt = performance.now();
    const handshakes = Promise.all(
      Array.from({ length: 9 }, async () => {
        const socket = await connectRaw(proxy.port);
        socket.write(sslRequest);
        return String((await once(socket, 'data'))[0]);
      }),
    );
    await neighbourWorks(proxy);
    expect(new Set(await handshakes)).toEqual(new Set('S'));
    // Three at once, then three a second.
    expect(performance.now() - beganAt).toBeGreaterThan(1_000);
  });

  it('gives a project the connections that the API leaves, and few more to clients that come at the same moment', async () => {
    const proxy = await openProxy(rowhouse);
    const outcomes = await Promise.all(
      Array.from({ length: 45 }, () =>
        connectPg(proxy.port, login).then(
          () => 'open',
          ({ code }) => code,
        ),
      ),
    );
    const open = outcomes.filter((outcome) => outcome === 'open').length;
    expect(open).toBeGreaterThanOrEqual(maxDirectSessions);
    expect(open).toBeLessThanOrEqual(40);
    expect(outcomes.filter((outcome) => outcome === '53300').length).toBe(45 - open);
    await neighbourWorks(proxy);
  });

  const elsewhere = Object.values(networkInterfaces())
    .flat()
    .find((one) => one && !one.internal && one.family === 'IPv4')?.address;
  if (!elsewhere)
    console.warn('SKIPPED: this machine has no network, so none but loopback addresses are tried.');
  it.skipIf(!elsewhere)('requires TLS of other machines, unless the operator allows clear text', async () => {
    const strict = await openProxy(rowhouse);
    const host = elsewhere ?? '';
    const refused = await connectPg(strict.port, login, { host }).catch((error) => error);
    expect(refused).toMatchObject({ code: '28000', message: 'connections from other machines require TLS' });
    const encrypted = await connectPg(strict.port, login, { host, ssl: { rejectUnauthorized: false } });
    expect((await encrypted.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    const open = await openProxy(rowhouse, { allowPlaintext: true });
    expect((await (await connectPg(open.port, login, { host })).query('select 1 as one')).rows).toEqual([
      { one: 1 },
    ]);
  });
});

const hasPsql = spawnSync('psql', ['--version']).status === 0;
if (!hasPsql) console.warn('SKIPPED: psql is not installed, so it does not try the proxy.');
describe.skipIf(!hasPsql)('psql through the PostgreSQL proxy', () => {
  const psql = async (proxy: TestProxy, parameters: string, args: string[], input = '') => {
    const { user, password, database } = login;
    const child = spawn(
      'psql',
      [
        '-XAt',
        '-v',
        'ON_ERROR_STOP=1',
        `host=localhost hostaddr=127.0.0.1 port=${proxy.port} user=${user} dbname=${database} ${parameters}`,
        ...args,
      ],
      { env: { ...process.env, PGPASSWORD: password }, stdio: ['pipe', 'pipe', 'pipe'] },
    );
    child.stdin.end(input);
    const [output, problems] = await Promise.all([text(child.stdout), text(child.stderr)]);
    return { output: output.trim(), problems: problems.trim() };
  };

  it('uses TLS without channel binding, verifies the certificate, and gets plain errors', async () => {
    const proxy = await openProxy(rowhouse);
    const verified = `sslmode=verify-full sslrootcert=${proxy.certificate}`;
    for (const parameters of [
      'sslmode=disable',
      'sslmode=require',
      'sslmode=require channel_binding=prefer',
      verified,
    ])
      expect(await psql(proxy, parameters, ['-c', 'select 1']), parameters).toEqual({
        output: '1',
        problems: '',
      });
    const bound = await psql(proxy, 'sslmode=require channel_binding=require', ['-c', 'select 1']);
    expect(bound.problems).toMatch(/channel binding/);
    const slug = await psql(proxy, 'sslmode=require dbname=hostile', ['-c', 'select 1']);
    expect(slug.problems).toContain('FATAL:  this user and database are not those of a project');
    expect(slug.problems).toContain('HINT:  Use the address that GET /projects/:slug/connection returns.');
  });

  it('copies a million rows in and out', async () => {
    const proxy = await openProxy(rowhouse);
    const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-psql-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const [from, to] = [path.join(folder, 'from'), path.join(folder, 'to')];
    writeFileSync(from, Array.from({ length: 1_000_000 }, (_, n) => `${n}\n`).join(''));
    for (const mode of ['disable', 'require']) {
      const copied = await psql(
        proxy,
        `sslmode=${mode}`,
        [],
        [
          'create temporary table n (n int);',
          `\\copy n from '${from}'`,
          `\\copy (select n from n order by n) to '${to}'`,
        ].join('\n'),
      );
      expect(copied, mode).toEqual({ output: 'CREATE TABLE\nCOPY 1000000\nCOPY 1000000', problems: '' });
      expect(readFileSync(to).equals(readFileSync(from))).toBe(true);
    }
  });
});
