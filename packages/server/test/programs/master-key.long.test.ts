import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { address, asAdmin, newControlName, removeTestService } from '../support/helpers.ts';
import { launch, newAccountKey, newDataFolder, postmasterPid, usedDataFolder } from '../support/process.ts';

const keyIn = (folder: string) => path.join(folder, 'master.key');
const checkIn = (folder: string) => path.join(folder, 'master.key.check');
const otherKey = 'cd'.repeat(32);

/** A start that must not come up, and what it said. */
async function refused(env: Record<string, string>): Promise<string> {
  const service = await launch(env);
  expect((await service.exited).code, service.output()).toBe(1);
  expect(service.output()).not.toContain('    at ');
  return service.output();
}

async function starts(env: Record<string, string>): Promise<void> {
  const service = await launch({ ...env, ROWHOUSE_ACCOUNT_KEY: newAccountKey() });
  expect((await service.call('GET', '/projects')).status, service.output()).toBe(200);
  expect(await service.stop()).toBe(0);
}

describe('existing data', () => {
  it('without its key: the start refuses, says what to do, and makes no new key', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const aside = path.join(newDataFolder(), 'key');
    renameSync(keyIn(ROWHOUSE_DATA), aside);
    const before = readdirSync(ROWHOUSE_DATA).sort();
    for (let times = 0; times < 2; times++) {
      const said = await refused({ ROWHOUSE_DATA });
      expect(said).toContain(`${ROWHOUSE_DATA}/postgres contains data`);
      expect(said).toContain(`rowhouse master-key import <file> --data ${ROWHOUSE_DATA}`);
      expect(said).toContain('an empty data folder');
      expect(said).not.toMatch(/password|PostgreSQL cannot be reached/);
    }
    expect(readdirSync(ROWHOUSE_DATA).sort(), 'nothing was made').toEqual(before);
    renameSync(aside, keyIn(ROWHOUSE_DATA));
    await starts({ ROWHOUSE_DATA });
  });

  it('with the key of another installation: refused before PostgreSQL is started', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const right = readFileSync(keyIn(ROWHOUSE_DATA));
    writeFileSync(keyIn(ROWHOUSE_DATA), `${otherKey}\n`);
    const log = readFileSync(path.join(ROWHOUSE_DATA, 'logs', 'postgres.log'), 'utf8');
    const said = await refused({ ROWHOUSE_DATA });
    expect(said).toContain(`${keyIn(ROWHOUSE_DATA)} is not the key with which`);
    expect(said).toContain('rowhouse master-key import');
    expect(readFileSync(path.join(ROWHOUSE_DATA, 'logs', 'postgres.log'), 'utf8')).toBe(log);
    const byEnvironment = await refused({ ROWHOUSE_DATA, ROWHOUSE_MASTER_KEY: otherKey });
    expect(byEnvironment).toContain('ROWHOUSE_MASTER_KEY is not the key');
    expect(byEnvironment).toContain(`unset it to use ${keyIn(ROWHOUSE_DATA)}`);
    expect(byEnvironment).not.toContain(otherKey);
    writeFileSync(keyIn(ROWHOUSE_DATA), right);
    await starts({ ROWHOUSE_DATA });
    rmSync(keyIn(ROWHOUSE_DATA));
    await starts({ ROWHOUSE_DATA, ROWHOUSE_MASTER_KEY: right.toString().trim() });
    expect(existsSync(keyIn(ROWHOUSE_DATA)), 'a key from the environment is not stored').toBe(false);
  });

  it('of a version that recorded no check: the login decides, and the next start records one', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const right = readFileSync(keyIn(ROWHOUSE_DATA));
    const recorded = readFileSync(checkIn(ROWHOUSE_DATA), 'utf8');
    expect(recorded).not.toContain(right.toString().trim());
    rmSync(checkIn(ROWHOUSE_DATA));
    writeFileSync(keyIn(ROWHOUSE_DATA), otherKey);
    const said = await refused({ ROWHOUSE_DATA });
    expect(said).toContain(`${keyIn(ROWHOUSE_DATA)} is not the key with which`);
    expect(postmasterPid(ROWHOUSE_DATA), 'PostgreSQL is stopped again').toBeNull();
    expect(existsSync(checkIn(ROWHOUSE_DATA)), 'a wrong key leaves no check').toBe(false);
    writeFileSync(keyIn(ROWHOUSE_DATA), right);
    await starts({ ROWHOUSE_DATA });
    expect(readFileSync(checkIn(ROWHOUSE_DATA), 'utf8')).toBe(recorded);
  });

  it('put in the place of another cluster, with its own key: the old check does not count', async () => {
    const [ROWHOUSE_DATA, other] = [await usedDataFolder(), newDataFolder()];
    await starts({ ROWHOUSE_DATA: other });
    for (const name of ['postgres', 'master.key']) {
      rmSync(path.join(ROWHOUSE_DATA, name), { recursive: true });
      execFileSync('cp', ['-a', path.join(other, name), ROWHOUSE_DATA]);
    }
    await starts({ ROWHOUSE_DATA });
    expect(readFileSync(checkIn(ROWHOUSE_DATA))).toEqual(readFileSync(checkIn(other)));
  });

  it('with a check that is damaged: it counts no more, and is recorded again', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const [cluster = ''] = readFileSync(checkIn(ROWHOUSE_DATA), 'utf8').split(' ');
    writeFileSync(checkIn(ROWHOUSE_DATA), `${cluster} 0123`);
    await starts({ ROWHOUSE_DATA });
    expect(readFileSync(checkIn(ROWHOUSE_DATA), 'utf8')).toMatch(/^\d+ [0-9a-f]{64}\n$/);
  });

  it.each<[string, (file: string) => void, RegExp]>([
    ['empty', (file) => writeFileSync(file, ''), /it is empty/],
    ['truncated', (file) => writeFileSync(file, readFileSync(file).subarray(0, 40)), /64 hex digits/],
    ['readable by others', (file) => chmodSync(file, 0o644), /accessible to other users[\s\S]*chmod 600/],
    [
      'a pipe',
      (file) => instead(file, () => execFileSync('mkfifo', ['-m', '600', file])),
      /not a regular file/,
    ],
    ['a folder', (file) => instead(file, () => mkdirSync(file)), /not a regular file/],
    ['a link to nowhere', (file) => instead(file, () => symlinkSync('/nowhere/key', file)), /does not exist/],
  ])('with a key file that is %s: refused, and left as it is', async (_what, damage, words) => {
    const ROWHOUSE_DATA = await usedDataFolder();
    damage(keyIn(ROWHOUSE_DATA));
    const before = readdirSync(ROWHOUSE_DATA).sort();
    expect(await refused({ ROWHOUSE_DATA })).toMatch(words);
    expect(readdirSync(ROWHOUSE_DATA).sort()).toEqual(before);
    expect(postmasterPid(ROWHOUSE_DATA)).toBeNull();
  });

  function instead(file: string, make: () => void): void {
    rmSync(file);
    make();
  }

  it('a key file that is a link to the key on another disk works', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    const elsewhere = path.join(newDataFolder(), 'key');
    renameSync(keyIn(ROWHOUSE_DATA), elsewhere);
    symlinkSync(elsewhere, keyIn(ROWHOUSE_DATA));
    await starts({ ROWHOUSE_DATA });
  });

  it('on a disk that is not mounted (a link to nowhere) counts as data', async () => {
    const ROWHOUSE_DATA = newDataFolder();
    symlinkSync('/nowhere/postgres', path.join(ROWHOUSE_DATA, 'postgres'));
    expect(await refused({ ROWHOUSE_DATA })).toContain('The master key is missing');
    expect(readdirSync(ROWHOUSE_DATA)).toEqual(['postgres']);
  });
});

describe('a first start that was interrupted', () => {
  it('before there was a key is simply done again, whatever it left', async () => {
    const ROWHOUSE_DATA = newDataFolder();
    mkdirSync(path.join(ROWHOUSE_DATA, 'postgres'));
    mkdirSync(path.join(ROWHOUSE_DATA, 'postgres.new', 'base'), { recursive: true });
    writeFileSync(path.join(ROWHOUSE_DATA, 'postgres.new', 'PG_VERSION'), '18\n');
    writeFileSync(`${keyIn(ROWHOUSE_DATA)}.0123456789ab`, 'abc');
    await starts({ ROWHOUSE_DATA });
    const made = readFileSync(keyIn(ROWHOUSE_DATA), 'utf8');
    await starts({ ROWHOUSE_DATA });
    expect(readFileSync(keyIn(ROWHOUSE_DATA), 'utf8')).toBe(made);
  });

  it('after the cluster was made, before the check was recorded: the key is needed, and enough', async () => {
    const ROWHOUSE_DATA = await usedDataFolder();
    rmSync(checkIn(ROWHOUSE_DATA));
    const right = readFileSync(keyIn(ROWHOUSE_DATA));
    rmSync(keyIn(ROWHOUSE_DATA));
    expect(await refused({ ROWHOUSE_DATA })).toContain('The master key is missing');
    writeFileSync(keyIn(ROWHOUSE_DATA), right, { mode: 0o600 });
    await starts({ ROWHOUSE_DATA });
  });

  it('an unusable key file where there is no data: the hint says that it can go', async () => {
    const ROWHOUSE_DATA = newDataFolder();
    writeFileSync(keyIn(ROWHOUSE_DATA), '', { mode: 0o600 });
    expect(await refused({ ROWHOUSE_DATA })).toContain(`Remove ${keyIn(ROWHOUSE_DATA)}`);
    expect(readdirSync(ROWHOUSE_DATA)).toEqual(['master.key']);
  });
});

it('several processes: none of them makes a key, and one that comes back without it says so', async () => {
  const ROWHOUSE_DATA = await usedDataFolder();
  const service = await launch({
    ROWHOUSE_DATA,
    ROWHOUSE_WORKERS: '2',
    ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
  });
  expect((await service.call('GET', '/projects')).status, service.output()).toBe(200);
  rmSync(keyIn(ROWHOUSE_DATA));
  const worker = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,args='], { encoding: 'utf8' })
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .find(
      ([, parent, ...args]) => parent === String(service.child.pid) && args.join(' ').includes('main.js'),
    );
  process.kill(Number(worker?.[0]), 'SIGKILL');
  await expect.poll(() => service.output(), { timeout: 20_000 }).toContain('The master key is missing');
  expect(existsSync(keyIn(ROWHOUSE_DATA))).toBe(false);
  expect((await service.call('GET', '/projects')).status, 'the other one serves').toBe(200);
  await service.stop();
  const again = await refused({ ROWHOUSE_DATA, ROWHOUSE_WORKERS: '2' });
  expect(again).toContain('The master key is missing');
  expect(existsSync(keyIn(ROWHOUSE_DATA))).toBe(false);
});

describe('a PostgreSQL server by its address', () => {
  const { user, password, host, port, database } = address();
  const url = `postgres://${user}:${encodeURIComponent(password)}@${host}:${port}/${database}`;

  it('whose projects were made with another data folder: refused without a new key', async () => {
    const first = {
      ROWHOUSE_DATA: newDataFolder(),
      ROWHOUSE_DATABASE_URL: url,
      ROWHOUSE_CONTROL_DATABASE: newControlName(),
      ROWHOUSE_SPARES: '0',
    };
    await starts(first);
    expect(existsSync(keyIn(first.ROWHOUSE_DATA))).toBe(true);
    const second = { ...first, ROWHOUSE_DATA: newDataFolder() };
    const said = await refused(second);
    expect(said).toContain(
      `the database "${first.ROWHOUSE_CONTROL_DATABASE}" on ${host}:${port} contains data`,
    );
    expect(said).toContain('rowhouse master-key import');
    expect(said).toContain('ROWHOUSE_CONTROL_DATABASE');
    expect(readdirSync(second.ROWHOUSE_DATA)).toEqual([]);
    expect(await refused({ ...second, ROWHOUSE_MASTER_KEY: otherKey })).toContain(
      'is not the key with which',
    );
    const right = readFileSync(keyIn(first.ROWHOUSE_DATA), 'utf8').trim();
    await starts({ ...second, ROWHOUSE_MASTER_KEY: right });
    const installation = await asAdmin(
      async (control) => {
        const [row] = await control.query<{ value: string }>(
          sql`select value from settings where name = 'installation'`,
        );
        return row?.value ?? '';
      },
      { ...address(), database: first.ROWHOUSE_CONTROL_DATABASE },
    );
    await removeTestService(first.ROWHOUSE_CONTROL_DATABASE, installation);
  });
});
