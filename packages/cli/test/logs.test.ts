// rowhouse logs: from the file of a service, and of a project from a running service.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { until } from '../../server/test/support/helpers.ts';
import { cleanUp, launch, newAccountKey, usedDataFolder } from '../../server/test/support/process.ts';
import { bare, bin } from './installation.ts';

afterAll(cleanUp);

const line = (level: string, msg: string, more: object = {}) =>
  `${JSON.stringify({ level, time: '2026-11-17T10:00:00.123Z', pid: 7, ...more, msg })}\n`;

function newLog(text: string): { data: string; file: string } {
  const data = mkdtempSync(path.join(tmpdir(), 'rowhouse-logs-'));
  onTestFinished(() => rmSync(data, { recursive: true }));
  mkdirSync(path.join(data, 'logs'));
  const file = path.join(data, 'logs', 'rowhouse.log');
  writeFileSync(file, text);
  return { data, file };
}

function run(args: string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [bin, 'logs', ...args], {
    encoding: 'utf8',
    env: { ...bare, ...env },
  });
  return { status, out: stdout, err: stderr };
}

function follow(args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [bin, 'logs', '--follow', ...args], {
    env: { ...bare, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let output = '';
  child.stdout.on('data', (piece) => {
    output += piece;
  });
  const stop = async () => {
    child.kill('SIGINT');
    const [status] = await once(child, 'exit');
    return status;
  };
  return { output: () => output, stop };
}

it('shows the last entries from a level on, also those of the part that was renamed', () => {
  const hostile = line('error', 'odd \u001b[2J text', { err: { message: 'a "cause"' }, path: '/a b' });
  const { data, file } = newLog(`${line('info', 'newer')}${line('debug', 'detail')}${hostile}`);
  writeFileSync(`${file}.1`, line('warn', 'older'));
  const { status, out } = run(['--data', data]);
  expect(status).toBe(0);
  expect(out.split('\n')).toEqual([
    '2026-11-17 10:00:00.123 WARN  older',
    '2026-11-17 10:00:00.123 INFO  newer',
    '2026-11-17 10:00:00.123 ERROR odd \ufffd[2J text path="/a b" | a "cause"',
    '',
  ]);
  expect(run(['--data', data, '--level', 'warn', '-n', '1']).out).toContain('odd');
  expect(run(['--data', data, '--level', 'debug']).out).toContain('DEBUG detail');
  const [first = ''] = run(['--data', data, '--json']).out.split('\n');
  expect(JSON.parse(first)).toMatchObject({ level: 'warn', msg: 'older' });
  const missing = run(['--data', data, '--requests']);
  expect([missing.status, missing.err]).toEqual([1, expect.stringContaining('--request-log file')]);
});

it('follows the file, over its replacement', async () => {
  const { data, file } = newLog(line('info', 'first'));
  const following = follow(['--data', data]);
  await until('it has begun', async () => following.output().includes('first'));
  const half = line('info', 'in two pieces');
  appendFileSync(file, half.slice(0, 20));
  await sleep(600);
  appendFileSync(file, half.slice(20));
  await until('it is whole', async () => following.output().includes('in two pieces'));
  appendFileSync(file, line('info', 'last of the old'));
  renameSync(file, `${file}.1`);
  writeFileSync(file, line('info', 'first of the new'));
  await until('both are shown', async () => following.output().includes('first of the new'));
  expect(following.output()).toContain('last of the old');
  expect(await following.stop()).toBe(0);
  expect(following.output().match(/INFO/g)).toHaveLength(4);
});

it('shows and follows the failures of a project, and the requests of a service', {
  tags: 'long',
}, async () => {
  const key = newAccountKey();
  const data = await usedDataFolder();
  const service = await launch({
    ROWHOUSE_DATA: data,
    ROWHOUSE_ACCOUNT_KEY: key,
    ROWHOUSE_REQUEST_LOG: 'file',
  });
  await service.call('POST', '/projects', { body: { name: 'Shop', slug: 'shop' } });
  const fail = (text: string) => service.call('POST', '/projects/shop/query', { body: { query: text } });
  await fail('select first_nope');
  const env = { ROWHOUSE_URL: service.url, ROWHOUSE_API_KEY: key };
  expect(run(['shop'], env).out).toMatch(
    /^\S+ \S+ 400 POST \/api\/dbaas\/v2\/projects\/shop\/query \S+ ms sql_error column "first_nope" does not exist \| select first_nope\n$/,
  );
  const following = follow(['shop'], env);
  await until('it has begun', async () => following.output().includes('first_nope'));
  await fail('select second_nope');
  await until('the second is shown', async () => following.output().includes('second_nope'));
  expect(await following.stop()).toBe(0);
  expect(following.output().split('\n')).toHaveLength(3);
  expect(run(['nowhere'], env)).toMatchObject({
    status: 1,
    err: expect.stringContaining('project_not_found'),
  });
  const requests = run(['--requests', '--data', data]).out;
  expect(requests).toMatch(
    /client=127\.0\.0\.1 method=POST path=\/api\/dbaas\/v2\/projects\/shop\/query status=400/,
  );
  expect(requests).not.toContain('nope');
  expect(run(['--data', data]).out).toContain('INFO  ready');
});
