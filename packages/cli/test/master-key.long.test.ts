import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { address, newControlName, removeTestService } from '../../server/test/support/helpers.ts';
import {
  launch,
  newAccountKey,
  newDataFolder,
  postmasterPid,
  usedDataFolder,
} from '../../server/test/support/process.ts';

const bin = fileURLToPath(new URL('../bin/rowhouse.mjs', import.meta.url));
const otherKey = 'cd'.repeat(32);
const keyIn = (folder: string) => path.join(folder, 'master.key');
const checkIn = (folder: string) => path.join(folder, 'master.key.check');

function environment(env: Record<string, string>) {
  const clean = Object.entries(process.env).filter(([name]) => !name.startsWith('ROWHOUSE_'));
  return { ...Object.fromEntries(clean), NO_COLOR: '1', ...env };
}

function run(
  args: string[],
  { env = {}, input = '' }: { env?: Record<string, string>; input?: string } = {},
) {
  const result = spawnSync(process.execPath, [bin, ...args], {
    encoding: 'utf8',
    env: environment(env),
    input,
  });
  expect(result.stderr).not.toContain('    at ');
  return { status: result.status, out: result.stdout, err: result.stderr };
}

/** What doctor says about the key. */
function doctor(folder: string, env: Record<string, string> = {}) {
  const { out } = run(['doctor', '--json', '--data', folder, '--port', '0'], { env });
  const checks = JSON.parse(out) as { check: string; state: string; found: string; todo?: string }[];
  return checks.find(({ check }) => check === 'master key');
}

async function starts(env: Record<string, string>): Promise<void> {
  const service = await launch({ ...env, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
  expect((await service.call('GET', '/projects')).status, service.output()).toBe(200);
  expect(await service.stop()).toBe(0);
}

describe('export', () => {
  let data = '';
  let key = '';
  beforeAll(async () => {
    data = await usedDataFolder();
    key = readFileSync(keyIn(data), 'utf8');
  });

  it('prints the key alone to a pipe', () => {
    expect(run(['master-key', 'export', '--data', data])).toEqual({ status: 0, out: key, err: '' });
    const { out } = run(['master-key', 'export', '--data', data, '--json']);
    expect(JSON.parse(out)).toMatchObject({ ok: true, master_key: key.trim(), compared: true });
    const env = { ROWHOUSE_MASTER_KEY: key.trim() };
    expect(run(['master-key', 'export', '--data', data], { env }).out).toBe(key);
  });

  it('warns on a terminal', (context) => {
    const command = `"${process.execPath}" "${bin}" master-key export --data "${data}"`;
    const result = spawnSync('script', ['-qec', command, '/dev/null'], {
      encoding: 'utf8',
      env: environment({}),
    });
    context.skip(result.error !== undefined, 'NOT RUN: the program script is not installed');
    expect(result.stdout).toContain('Warning: this key opens all project keys');
    expect(result.stdout).toContain(key.trim());
  });

  it('writes a file for its owner alone, and overwrites none', () => {
    const file = path.join(newDataFolder(), 'copy');
    const written = run(['master-key', 'export', '--data', data, '--output', file]);
    expect([written.status, written.err]).toEqual([0, '']);
    expect(written.out).not.toContain(key.trim());
    expect(readFileSync(file, 'utf8')).toBe(key);
    if (process.platform !== 'win32') expect(statSync(file).mode & 0o777).toBe(0o600);
    writeFileSync(file, 'precious');
    const again = run(['master-key', 'export', '--data', data, '--output', file]);
    expect([again.status, again.out]).toEqual([1, '']);
    expect(again.err).toContain('exists');
    expect(readFileSync(file, 'utf8')).toBe('precious');
    const nowhere = run(['master-key', 'export', '--data', data, '--output', '/nowhere/copy']);
    expect([nowhere.status, nowhere.err]).toEqual([1, expect.stringContaining('ENOENT')]);
  });

  it('refuses where there is no key, and a key that does not belong to the data', async () => {
    const empty = newDataFolder();
    const none = run(['master-key', 'export', '--data', empty]);
    expect([none.status, none.out]).toEqual([1, '']);
    expect(none.err).toContain('contains no data');
    expect(readdirSync(empty)).toEqual([]);
    const folder = await usedDataFolder();
    writeFileSync(keyIn(folder), otherKey);
    const wrong = run(['master-key', 'export', '--data', folder]);
    expect([wrong.status, wrong.out]).toEqual([1, '']);
    expect(wrong.err).toContain('is not the key with which');
    rmSync(checkIn(folder));
    const unknown = run(['master-key', 'export', '--data', folder]);
    expect([unknown.status, unknown.out]).toEqual([0, `${otherKey}\n`]);
    expect(unknown.err).toContain('could not be compared');
  });
});

describe('import', () => {
  it('puts a lost key back, from a file or from stdin, and the service starts again', async () => {
    const data = await usedDataFolder();
    const key = readFileSync(keyIn(data), 'utf8');
    const copy = path.join(newDataFolder(), 'copy');
    run(['master-key', 'export', '--data', data, '--output', copy]);
    rmSync(keyIn(data));
    const restored = run(['master-key', 'import', copy, '--data', data]);
    expect(restored).toEqual({ status: 0, out: expect.stringContaining(keyIn(data)), err: '' });
    expect(readFileSync(keyIn(data), 'utf8')).toBe(key);
    if (process.platform !== 'win32') expect(statSync(keyIn(data)).mode & 0o777).toBe(0o600);
    expect(run(['master-key', 'import', copy, '--data', data]).out).toContain('in place already');
    rmSync(keyIn(data));
    expect(run(['master-key', 'restore', '--data', data], { input: key }).status).toBe(0);
    await starts({ ROWHOUSE_DATA: data });
  });

  it.each([
    ['of another installation', `${otherKey}\n`, 'Nothing was changed'],
    ['half a key', otherKey.slice(1), '64 hex digits'],
    ['nothing', '', '64 hex digits'],
    ['too much', 'a'.repeat(1_000_000), '64 hex digits'],
  ])('refuses a key that is not proven: %s', async (_what, input, words) => {
    const data = await usedDataFolder();
    rmSync(keyIn(data));
    const before = readdirSync(data).sort();
    const { status, out, err } = run(['master-key', 'import', '--data', data], { input });
    expect([status, out]).toEqual([1, '']);
    expect(err).toContain(words);
    expect(err).not.toContain(otherKey);
    expect(readdirSync(data).sort()).toEqual(before);
  });

  it('keeps the file that was in its place', async () => {
    const data = await usedDataFolder();
    const key = readFileSync(keyIn(data), 'utf8');
    writeFileSync(keyIn(data), otherKey);
    const replaced = JSON.parse(run(['master-key', 'import', '--data', data, '--json'], { input: key }).out);
    expect(replaced).toMatchObject({ ok: true, changed: true });
    expect(readFileSync(replaced.kept_as, 'utf8')).toBe(otherKey);
    rmSync(keyIn(data));
    symlinkSync('/nowhere/key', keyIn(data));
    const env = { ROWHOUSE_MASTER_KEY: otherKey };
    const link = run(['master-key', 'import', '--data', data], { input: key, env });
    expect([link.status, readFileSync(keyIn(data), 'utf8')]).toEqual([0, key]);
    expect(link.err).toContain('ROWHOUSE_MASTER_KEY is set to another key');
  });

  it('asks PostgreSQL where no check was recorded, and leaves it stopped', async () => {
    const data = await usedDataFolder();
    const key = readFileSync(keyIn(data), 'utf8');
    rmSync(checkIn(data));
    rmSync(keyIn(data));
    const wrong = run(['master-key', 'import', '--data', data], { input: otherKey });
    expect([wrong.status, wrong.err]).toEqual([1, expect.stringContaining('Nothing was changed')]);
    expect([postmasterPid(data), existsSync(keyIn(data))]).toEqual([null, false]);
    const right = run(['master-key', 'import', '--data', data], { input: key });
    expect([right.status, right.err]).toEqual([0, '']);
    expect([postmasterPid(data), existsSync(path.join(data, 'service.lock'))]).toEqual([null, false]);
    expect(doctor(data), 'and the check is recorded').toMatchObject({ state: 'ok' });
  });

  it('works while the service runs that has lost its file', async () => {
    const data = await usedDataFolder();
    const key = readFileSync(keyIn(data), 'utf8');
    const service = await launch({ ROWHOUSE_DATA: data, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
    rmSync(keyIn(data));
    expect(doctor(data)).toMatchObject({ state: 'problem', found: expect.stringContaining('missing') });
    rmSync(checkIn(data));
    expect(run(['master-key', 'import', '--data', data], { input: otherKey }).status).toBe(1);
    expect(run(['master-key', 'import', '--data', data], { input: key }).status).toBe(0);
    expect((await service.call('GET', '/projects')).status).toBe(200);
    expect(doctor(data)).toMatchObject({ state: 'ok' });
    rmSync(checkIn(data));
    expect(doctor(data), 'without a check, the running PostgreSQL is asked').toMatchObject({ state: 'ok' });
    writeFileSync(keyIn(data), otherKey);
    expect(doctor(data)).toMatchObject({
      state: 'problem',
      found: expect.stringContaining('is not the key'),
    });
    await service.stop();
  });

  it('refuses where there is nothing to compare the key with', () => {
    const data = newDataFolder();
    for (const folder of [data, path.join(data, 'none')]) {
      const { status, err } = run(['master-key', 'import', '--data', folder], { input: otherKey });
      expect([status, err]).toEqual([1, expect.stringContaining('contains no data')]);
    }
    expect(readdirSync(data)).toEqual([]);
    mkdirSync(path.join(data, 'postgres', 'base'), { recursive: true });
    const damaged = run(['master-key', 'import', '--data', data], { input: otherKey });
    expect([damaged.status, damaged.err]).toEqual([1, expect.stringContaining('PG_VERSION is missing')]);
    expect(existsSync(keyIn(data))).toBe(false);
    const noFile = run(['master-key', 'import', '/nowhere/copy', '--data', data]);
    expect([noFile.status, noFile.err]).toEqual([1, expect.stringContaining('ENOENT')]);
  });
});

it('a server by its address: the key is compared with its control database', async () => {
  const { user, password, host, port, database } = address();
  const env = {
    ROWHOUSE_DATA: newDataFolder(),
    ROWHOUSE_DATABASE_URL: `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`,
    ROWHOUSE_CONTROL_DATABASE: newControlName(),
    ROWHOUSE_SPARES: '0',
  };
  await starts(env);
  const key = run(['master-key', 'export'], { env }).out;
  expect(key).toMatch(/^[0-9a-f]{64}\n$/);
  const elsewhere = { ...env, ROWHOUSE_DATA: path.join(newDataFolder(), 'new') };
  expect(doctor(elsewhere.ROWHOUSE_DATA, elsewhere)).toMatchObject({ state: 'problem' });
  expect(run(['master-key', 'import'], { env: elsewhere, input: otherKey }).status).toBe(1);
  expect(existsSync(elsewhere.ROWHOUSE_DATA), 'a refused key leaves nothing').toBe(false);
  expect(run(['master-key', 'import'], { env: elsewhere, input: key }).status).toBe(0);
  expect(doctor(elsewhere.ROWHOUSE_DATA, elsewhere)).toMatchObject({ state: 'ok' });
  await starts(elsewhere);
  const away = { ...env, ROWHOUSE_DATABASE_URL: 'postgres://a:b@127.0.0.1:1/postgres' };
  expect(doctor(env.ROWHOUSE_DATA, away)).toMatchObject({ state: 'warning' });
  const unreachable = run(['master-key', 'import'], { env: away, input: key });
  expect([unreachable.status, unreachable.err]).toEqual([1, expect.stringContaining('cannot be reached')]);
  await removeTestService(env.ROWHOUSE_CONTROL_DATABASE, '');
});

it('doctor finds a key that is missing, wrong, damaged or open to others', async () => {
  const data = await usedDataFolder();
  const key = readFileSync(keyIn(data), 'utf8');
  expect(doctor(data)).toMatchObject({ state: 'ok', found: expect.stringContaining('belongs to the data') });
  expect(doctor(data, { ROWHOUSE_MASTER_KEY: otherKey })).toMatchObject({
    state: 'problem',
    found: expect.stringContaining('ROWHOUSE_MASTER_KEY is not the key'),
  });
  expect(doctor(data, { ROWHOUSE_MASTER_KEY: otherKey, ROWHOUSE_SPARES: 'many' })).toMatchObject({
    state: 'problem',
  });
  const damages: [string, () => void][] = [
    ['accessible to other users', () => chmodSync(keyIn(data), 0o640)],
    ['is not the key with which', () => writeFileSync(keyIn(data), otherKey)],
    ['it is empty', () => writeFileSync(keyIn(data), '')],
    ['is missing', () => rmSync(keyIn(data))],
  ];
  for (const [words, damage] of damages) {
    damage();
    const found = doctor(data);
    expect(found).toMatchObject({ state: 'problem', found: expect.stringContaining(words) });
    expect(found?.todo).toBeTruthy();
    if (existsSync(keyIn(data))) chmodSync(keyIn(data), 0o600);
  }
  expect(existsSync(keyIn(data)), 'doctor makes no key').toBe(false);
  writeFileSync(keyIn(data), key, { mode: 0o600 });
  rmSync(checkIn(data));
  expect(doctor(data), 'nothing to compare with').toMatchObject({ state: 'warning' });
});
