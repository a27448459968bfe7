// The process in which passwords are hashed: that it hashes rightly, yields, dies with the service and is replaced.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { keepHashChild } from '../../../src/access/passwords/hash-child.ts';
import { until } from '../../support/helpers.ts';
import { hashProcesses, hashProcessesOf, isRunning } from '../../support/process.ts';

const built = new URL('../../../dist/access/passwords/hash-child.js', import.meta.url).href;

function start(program?: URL) {
  const reported: unknown[] = [];
  const onError = (error: unknown) => reported.push(error);
  const child = keepHashChild({ slots: 2, onError, ...(program && { program }) });
  onTestFinished(() => child.stop());
  return { ...child, reported };
}

const task = (password: string, salt: string, iterations: number, burn = 0) => ({
  password,
  salt: Buffer.from(salt).toString('base64'),
  iterations,
  burn,
});

describe('the process that hashes', () => {
  it.each([
    ['passwd', 'salt', 1, '55ac046e56e3089fec1691c22544b605f94185216dde0465e68b9d57c20dacbc'],
    ['Password', 'NaCl', 80_000, '4ddcd8f60b98be21830cee5ef22701f9641a4418d04c0414aeff08876b34ab56'],
    ['password', 'salt', 1, '120fb6cffcf8b32c43e7225256c4f837a86548c92ccc35480805987cb70be17b'],
    ['password', 'salt', 2, 'ae4d0c95af6b46d32d0adff928f06dd02a303f8ef3c251dfd6e2d85a95474c43'],
    ['password', 'salt', 4_096, 'c5e478d59288c841aa530db6845c4c8d962893a001ce4e11a4963873aa98134a'],
  ])(
    'computes PBKDF2-SHA256 of password %s, salt %s, %i iterations',
    async (password, salt, iterations, hash) => {
      const child = start();
      expect((await child.run(task(password, salt, iterations))).toString('hex')).toBe(hash);
      // What is burnt changes nothing.
      expect((await child.run(task(password, salt, iterations, 500))).toString('hex')).toBe(hash);
    },
  );

  it('takes passwords of any script as UTF-8', async () => {
    const child = start();
    const hash = await child.run(task('пароль\u{1f600}\n"\\\u2028', 'salt', 1_000));
    // hashlib.pbkdf2_hmac('sha256', 'пароль\U0001f600\n"\\\u2028'.encode(), b'salt', 1000) in Python.
    expect(hash.toString('hex')).toBe('1dbe4a1014e6a1688773a1a955e40db63cbed5b7791a98f33f7722a4c17fe590');
  });

  it.runIf(process.platform === 'linux')('runs every thread at the usual priority', async () => {
    const child = start();
    await child.run(task('password', 'salt', 1));
    const [pid] = hashProcessesOf(process.pid);
    const threads = readdirSync(`/proc/${pid}/task`);
    const priorities = threads.map((thread) => {
      const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8');
      return stat.slice(stat.lastIndexOf(') ') + 2).split(' ')[16];
    });
    expect(threads.length).toBeGreaterThan(2);
    const own = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ')[16];
    expect(new Set(priorities)).toEqual(new Set([own]));
    const group = `/proc/${pid}/autogroup`;
    if (existsSync(group)) expect(readFileSync(group, 'utf8')).toContain('nice 0');
  });

  it.runIf(process.platform === 'linux')('does not inherit the environment of the service', async () => {
    process.env.ROWHOUSE_TEST_SECRET = 'x';
    onTestFinished(() => {
      delete process.env.ROWHOUSE_TEST_SECRET;
    });
    const child = start();
    await child.run(task('password', 'salt', 1));
    const environment = readFileSync(`/proc/${hashProcessesOf(process.pid)[0]}/environ`, 'utf8');
    expect(environment).toContain('UV_THREADPOOL_SIZE=2');
    expect(environment).not.toContain('ROWHOUSE');
  });

  it('is restarted when it died, and its running tasks fail with 503', async () => {
    const child = start();
    await child.run(task('password', 'salt', 1));
    const [pid = 0] = hashProcessesOf(process.pid);
    process.kill(pid, 'SIGSTOP');
    const lost = [child.run(task('password', 'salt', 1)), child.run(task('password', 'salt', 1))];
    process.kill(pid, 'SIGKILL');
    for (const { status, reason } of (await Promise.allSettled(lost)) as PromiseRejectedResult[]) {
      expect(status).toBe('rejected');
      expect(reason).toMatchObject({ code: 'unavailable', status: 503, retryAfterS: 1 });
    }
    expect(child.reported).toMatchObject([{ message: expect.stringContaining('SIGKILL') }]);
    expect((await child.run(task('password', 'salt', 1))).length).toBe(32);
    expect(hashProcessesOf(process.pid)).not.toContain(pid);
  });

  it('ignores signals that are meant for the service', async () => {
    const child = start();
    await child.run(task('password', 'salt', 1));
    const [pid = 0] = hashProcessesOf(process.pid);
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(pid, signal);
    await child.run(task('password', 'salt', 1));
    expect(hashProcessesOf(process.pid)).toEqual([pid]);
  });

  it('is gone after stop, even while it hashes', async () => {
    const child = start();
    await child.run(task('password', 'salt', 1));
    const [pid = 0] = hashProcessesOf(process.pid);
    const running = child.run(task('password', 'salt', 10_000_000));
    running.catch(() => {});
    await child.stop();
    expect(isRunning(pid)).toBe(false);
    await expect(running).rejects.toMatchObject({ code: 'unavailable' });
    await expect(child.run(task('password', 'salt', 1))).rejects.toMatchObject({ code: 'unavailable' });
    await child.stop();
    expect(hashProcessesOf(process.pid)).toEqual([]);
    expect(child.reported).toEqual([]);
  });

  it('starts no process when it is stopped before its first task', async () => {
    const child = start();
    await child.stop();
    await expect(child.run(task('password', 'salt', 1))).rejects.toMatchObject({ code: 'unavailable' });
    expect(hashProcessesOf(process.pid)).toEqual([]);
    expect(child.reported).toEqual([]);
  });

  it.each([
    ['that is not there', null],
    ['that ends at once', 'process.exit(3)'],
    ['that cannot be read', 'this is no program'],
  ])('a program %s gives 503, is reported, and is not started at every sign-in', async (_, text) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-hash-'));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const file = path.join(folder, 'program.mjs');
    if (text !== null) writeFileSync(file, text);
    const child = start(pathToFileURL(file));
    for (let n = 0; n < 20; n++)
      await expect(child.run(task('password', 'salt', 1))).rejects.toMatchObject({ status: 503 });
    expect(child.reported.length).toBeGreaterThan(0);
    // The pause is a second; twenty starts in a row would be twenty reports.
    expect(child.reported.length).toBeLessThan(20);
  });

  it('a program that cannot even be forked gives 503', async () => {
    const { execPath } = process;
    process.execPath = '/nowhere/node';
    onTestFinished(() => {
      process.execPath = execPath;
    });
    const child = start();
    await expect(child.run(task('password', 'salt', 1))).rejects.toMatchObject({ status: 503 });
    await expect(child.run(task('password', 'salt', 1))).rejects.toMatchObject({ status: 503 });
    expect(child.reported).toMatchObject([{ code: 'ENOENT' }]);
    await child.stop();
  });

  it('dies with the service, even after kill -9', async () => {
    const program = `
      setInterval(() => {}, 1000);
      const { keepHashChild } = await import(${JSON.stringify(built)});
      const child = keepHashChild({ slots: 1, onError: () => {} });
      await child.run({ password: 'password', salt: 'AAAA', iterations: 1, burn: 0 });
      child.run({ password: 'password', salt: 'AAAA', iterations: 10_000_000, burn: 0 });
      console.log('ready');`;
    const parent = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    onTestFinished(() => void parent.kill('SIGKILL'));
    await once(parent.stdout, 'data');
    const [pid = 0] = hashProcessesOf(parent.pid ?? 0);
    expect(isRunning(pid)).toBe(true);
    parent.kill('SIGKILL');
    await once(parent, 'exit');
    await until('it is gone', async () => hashProcesses().every((other) => other.pid !== pid));
  });
});
