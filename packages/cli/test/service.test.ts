// rowhouse service: what it would write, checked by systemd's own tools, and the system calls that the service really makes.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { until } from '../../server/test/support/helpers.ts';
import { freePort, newDataFolder } from '../../server/test/support/process.ts';
import { bare, bin, newFolder, rowhouse } from './installation.ts';

const unit = () => rowhouse(['service', 'install', '--print']).stdout.split('\n\n').slice(1).join('\n\n');
const isInstalled = (program: string) => spawnSync(program, ['--version']).status === 0;
const hasSystemd = isInstalled('systemd-analyze');
const hasStrace = spawnSync('strace', ['-V']).status === 0;
if (!hasSystemd) console.warn('SKIPPED: systemd-analyze is not installed, so it does not check the unit.');
if (!hasStrace)
  console.warn('SKIPPED: strace is not installed, so the system calls of the service are not compared.');

it('--print says every step, needs no rights and changes nothing', () => {
  const { status, stdout, stderr } = rowhouse(['service', 'install', '--print', '--user', 'someone']);
  expect([status, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(/^# useradd --system .* someone\n# write \/etc\/rowhouse\/rowhouse\.env\n/);
  expect(stdout).toContain(`\nExecStart=${process.execPath} ${bin} start\nUser=someone\n`);
  expect(existsSync('/etc/systemd/system/rowhouse.service')).toBe(false);
  expect(rowhouse(['service', 'uninstall', '--print']).stdout).toContain('# systemctl disable --now');
});

it.each([
  ['--user', 'root'],
  ['--user', 'a b'],
  ['--user', 'x\nExecStartPre=/bin/sh'],
  ['--data', '/etc'],
  ['--data', '/var/lib/../../etc'],
  ['--data', '/var/lib/%h'],
  ['--data', '/var/lib/a b'],
])('refuses %s %j, which would not mean the same in a unit', (option, value) => {
  const { status, stderr } = rowhouse(['service', 'install', '--print', option, value]);
  expect(status).not.toBe(0);
  expect(stderr).not.toContain('    at ');
});

it.skipIf(existsSync('/run/systemd/system'))('without systemd it says what to do instead', () => {
  for (const action of ['install', 'uninstall', 'status']) {
    const { status, stderr } = rowhouse(['service', action]);
    expect(status).not.toBe(0);
    expect(stderr).toMatch(/systemd does not run on this machine|in a folder that the service cannot read/);
  }
});

describe.skipIf(!hasSystemd)('systemd', () => {
  const written = () => {
    const file = path.join(newFolder(), 'rowhouse.service');
    writeFileSync(file, unit());
    return file;
  };

  it('accepts the unit without a warning', () => {
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', written()], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
  });

  it('rates its exposure as the docs say', () => {
    const args = ['security', '--offline=true', '--no-pager', '--threshold=20', written()];
    const { status, stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    expect(status, stdout).toBe(0);
    const exposure = /exposure level for rowhouse\.service: ([\d.]+)/.exec(stdout)?.[1];
    const docs = readFileSync(path.resolve(import.meta.dirname, '../../../docs/production.md'), 'utf8');
    expect(docs).toContain(`exposure level for rowhouse.service: ${exposure}`);
  });

  it.skipIf(!hasStrace)(
    'allows every system call that the service and PostgreSQL make',
    { tags: 'long' },
    async () => {
      const allowed = new Set<string>();
      for (const [, isDenied, sets = ''] of unit().matchAll(/^SystemCallFilter=(~?)(.*)$/gm)) {
        for (const name of sets.split(' ').flatMap((set) => [...callsOf(set)]))
          allowed[isDenied ? 'delete' : 'add'](name);
      }
      expect([allowed.has('read'), allowed.has('chroot'), allowed.has('mount')]).toEqual([
        true,
        false,
        false,
      ]);
      const used = await traced();
      expect(used.size).toBeGreaterThan(60);
      expect([...used].filter((name) => !allowed.has(name))).toEqual([]);
    },
  );
});

/** A set and those that it consists of. */
function callsOf(set: string): Set<string> {
  const { stdout } = spawnSync('systemd-analyze', ['syscall-filter', set], { encoding: 'utf8' });
  const names = stdout
    .split('\n')
    .slice(1)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  return new Set(names.flatMap((name) => (name.startsWith('@') ? [...callsOf(name)] : [name])));
}

/** The names of all system calls from the first start to the stop, with a project, a query, a user and a backup. */
async function traced(): Promise<Set<string>> {
  const [data, folder, port] = [newDataFolder(), newFolder(), await freePort()];
  const isRoot = process.getuid?.() === 0;
  if (isRoot) for (const place of [data, folder]) chownSync(place, 65_534, 65_534);
  for (const place of [data, folder]) chmodSync(place, 0o755);
  const program = isRoot ? reachable() : bin;
  const args = ['-f', '-ff', '-qq', '-o', `${folder}/trace`, process.execPath, program, 'start'];
  const child = spawn('strace', args, {
    env: { ...bare, ROWHOUSE_DATA: data, ROWHOUSE_PORT: String(port), HOME: '/nonexistent' },
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: data,
    ...(isRoot && { uid: 65_534, gid: 65_534 }),
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text) => {
      output += text;
    });
  }
  await until('it is ready', async () => /^ready$/m.test(output) || child.exitCode !== null, 240_000);
  const key = /rh_acct_\w+/.exec(output)?.[0] ?? output;
  const env = { ROWHOUSE_URL: `http://127.0.0.1:${port}`, ROWHOUSE_API_KEY: key };
  expect(rowhouse(['projects', 'create', 'Tea'], env).stderr).toBe('');
  const call = (target: string, body: object) =>
    fetch(`http://127.0.0.1:${port}/api/dbaas/v2/projects/tea/${target}`, {
      method: 'POST',
      headers: { 'x-api-key': key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
  expect(
    (await call('query', { query: 'create table t as select generate_series(1, 100000) as i' })).status,
  ).toBe(200);
  expect((await call('auth/signup', { email: 'a@example.com', password: 'correct horse' })).status).toBe(201);
  // The first start begins one by itself, which takes long here: strace stops every system call.
  const backup = await until(
    'no other backup runs',
    async () => {
      const tried = rowhouse(['backup', 'now'], env);
      return !tried.stderr.includes('already running') && tried;
    },
    240_000,
  );
  expect(backup.status, backup.stderr).toBe(0);
  const pid = Number(
    /^(\d+)/.exec(spawnSync('pgrep', ['-P', String(child.pid)], { encoding: 'utf8' }).stdout)?.[1],
  );
  process.kill(pid, 'SIGTERM');
  await once(child, 'exit');
  expect(output).toContain('Stopped.');
  const used = new Set<string>();
  for (const file of readdirSync(folder)) {
    for (const [, name = ''] of readFileSync(path.join(folder, file), 'utf8').matchAll(/^([a-z_0-9]+)\(/gm))
      used.add(name);
  }
  return used;
}

/** A copy that an ordinary user can read: the checkout may be below /root. */
function reachable(): string {
  const place = newFolder();
  chmodSync(place, 0o755);
  const root = path.resolve(import.meta.dirname, '../../..');
  for (const name of ['api', 'cli', 'server']) {
    for (const part of ['package.json', 'bin', 'dist', 'migrations', 'data', 'node_modules']) {
      const from = path.join(root, 'packages', name, part);
      if (existsSync(from)) cpSync(from, path.join(place, 'packages', name, part), { recursive: true });
    }
  }
  mkdirSync(path.join(place, 'node_modules'), { recursive: true });
  spawnSync('cp', ['-a', `${root}/node_modules/.`, path.join(place, 'node_modules')]);
  return path.join(place, 'packages/cli/bin/rowhouse.mjs');
}
