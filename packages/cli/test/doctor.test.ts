// rowhouse doctor, without a service and beside one.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import {
  cleanUp,
  freePort,
  launch,
  newAccountKey,
  newDataFolder,
  usedDataFolder,
} from '../../server/test/support/process.ts';
import { bare, bin } from './installation.ts';

afterAll(cleanUp);

function check(more: Record<string, string>, ...args: string[]) {
  const env = { ...bare, NO_COLOR: '1', XDG_CONFIG_HOME: '/nowhere', ...more };
  const { status, stdout, stderr } = spawnSync(process.execPath, [bin, 'doctor', '--json', ...args], {
    encoding: 'utf8',
    env,
  });
  expect(stderr).not.toContain('    at ');
  return {
    status,
    checks: JSON.parse(stdout) as { check: string; state: string; found: string; todo?: string }[],
  };
}

describe('doctor', () => {
  it('finds no problem with a new data folder and does not create it', async () => {
    const folder = `${newDataFolder()}/new`;
    const { status, checks } = check({}, '--data', folder, '--port', String(await freePort()));
    expect(checks.filter(({ state }) => state === 'problem')).toEqual([]);
    expect(status).toBe(0);
    expect(spawnSync('ls', [folder]).status).not.toBe(0);
  });

  it('says which security fixes the running PostgreSQL and Node.js lack', async () => {
    const { checks } = check({}, '--data', newDataFolder(), '--port', String(await freePort()));
    const fixes = checks.filter((one) => one.check === 'security fixes');
    expect(fixes.map(({ found }) => found)).toEqual([
      expect.stringContaining(`Node.js ${process.versions.node} `),
      expect.stringMatching(
        /^PostgreSQL \d+\.\d+ (?:lacks the security fixes of|has all that were known on)/,
      ),
    ]);
    for (const { state, todo } of fixes) expect(todo !== undefined, state).toBe(state === 'warning');
  });

  it('says where backups are, and warns while they are off or on the disk of the data', async () => {
    const backups = (env: Record<string, string>) =>
      check(env, '--data', newDataFolder(), '--port', '0').checks.find((one) => one.check === 'backups');
    expect(backups({ ROWHOUSE_BACKUP_URL: 'off' })).toMatchObject({ state: 'warning', found: 'off' });
    expect(backups({})).toMatchObject({
      state: 'warning',
      found: expect.stringContaining('on the disk of the data'),
    });
    const elsewhere = newDataFolder();
    expect(backups({ ROWHOUSE_BACKUP_URL: `file:${elsewhere}` })).toMatchObject({
      state: 'warning',
      found: expect.stringContaining('on the disk of the data'),
    });
    // Devices are a file system of their own.
    expect(backups({ ROWHOUSE_BACKUP_URL: 'file:/dev/backups' })).toMatchObject({ state: 'ok' });
    writeFileSync(`${elsewhere}/file`, '');
    expect(backups({ ROWHOUSE_BACKUP_URL: `file:${elsewhere}/file` })).toMatchObject({ state: 'problem' });
  });

  it('names each problem and what to do about it', async () => {
    const service = await launch({
      ROWHOUSE_DATA: await usedDataFolder(),
      ROWHOUSE_ACCOUNT_KEY: newAccountKey(),
    });
    const { port } = new URL(service.url);
    const taken = check({ ROWHOUSE_SPARES: 'many' }, '--data', newDataFolder(), '--port', port);
    expect(taken.status).toBe(1);
    const problems = taken.checks.filter(({ state }) => state === 'problem');
    expect(problems.map((problem) => problem.check).sort()).toEqual(['port', 'settings']);
    for (const { todo } of problems) expect(todo).toBeTruthy();
  });
});
