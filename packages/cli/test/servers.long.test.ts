// rowhouse servers and rowhouse doctor with a second PostgreSQL, on a service with two processes.
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { startEmbedded } from '../../server/src/servers/embedded/embedded.ts';
import { until } from '../../server/test/support/helpers.ts';
import { launch, newAccountKey, usedDataFolder } from '../../server/test/support/process.ts';

const bin = path.resolve(import.meta.dirname, '../bin/rowhouse.mjs');

it('servers are added, listed, drained and removed, and doctor checks them', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-second-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  const second = await startEmbedded({
    dataFolder: folder,
    masterKey: randomBytes(32),
    connections: 40,
    reserveBytes: 0,
    say: () => {},
    onEvent: () => {},
  });
  onTestFinished(second.stop);
  const { user, password, port } = second.address;
  const key = newAccountKey();
  const data = await usedDataFolder();
  const service = await launch({
    ROWHOUSE_DATA: data,
    ROWHOUSE_ACCOUNT_KEY: key,
    ROWHOUSE_WORKERS: '2',
  });
  const run = (args: string[], env: Record<string, string> = {}) => {
    const clean = Object.entries(process.env).filter(([name]) => !name.startsWith('ROWHOUSE_'));
    const { status, stdout, stderr } = spawnSync(process.execPath, [bin, ...args], {
      encoding: 'utf8',
      env: { ...Object.fromEntries(clean), ROWHOUSE_URL: service.url, ROWHOUSE_API_KEY: key, ...env },
    });
    expect(stdout + stderr).not.toContain(password);
    return { status, out: stdout, err: stderr };
  };
  const doctor = () => {
    const { out } = run(['doctor', '--json', '--data', data, '--port', new URL(service.url).port]);
    const checks = JSON.parse(out) as { check: string; state: string; found: string }[];
    return checks.filter(({ check }) => check === 'server db2');
  };

  const missing = run(['servers', 'add', 'db2']);
  expect([missing.status, missing.err]).toEqual([1, expect.stringContaining('ROWHOUSE_SERVER_URL')]);
  const url = `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`;
  const added = run(['servers', 'add', 'db2', '--label', 'eu', 'ssd', '--capacity-mb', '5000'], {
    ROWHOUSE_SERVER_URL: url,
  });
  expect([added.status, added.err]).toEqual([0, '']);
  expect(added.out).toMatch(/state +ready/);
  expect(run(['servers', 'list']).out).toMatch(
    /\nembedded +ready .*\ndb2 +ready +127\.0\.0\.1:\d+ .*eu, ssd/,
  );
  const created = run(['projects', 'create', 'Far', '--label', 'ssd', '--json']);
  expect(created.status, created.err).toBe(0);
  const { project, api_key: projectKey } = JSON.parse(created.out);
  // Whichever process answers.
  for (let n = 0; n < 8; n++) {
    const body = { query: 'select inet_server_port() as port' };
    const answer = await service.call('POST', `/projects/${project.slug}/query`, { key: projectKey, body });
    expect(answer.body.rows).toEqual([{ port }]);
  }
  expect(run(['servers', 'drain', 'db2', '--keep-projects']).out).toMatch(/state +draining/);
  expect(run(['projects', 'create', 'Late', '--server', 'db2']).err).toContain('drained');
  expect(run(['servers', 'drain', 'db2', '--undo']).out).toMatch(/state +ready/);
  expect(run(['servers', 'remove', 'db2']).err).toContain('has 1 projects');
  expect(run(['servers', 'remove', 'db3']).err).toContain('no server "db3"');
  const portOf = async () => {
    const body = { query: 'select inet_server_port() as port' };
    const answer = await service.call('POST', `/projects/${project.slug}/query`, { key: projectKey, body });
    return answer.body.rows;
  };
  const moved = run(['projects', 'move', project.slug, 'embedded']);
  expect([moved.status, moved.out]).toEqual([
    0,
    expect.stringContaining('to embedded (online). Requests waited'),
  ]);
  expect(await portOf()).not.toEqual([{ port }]);
  expect(run(['projects', 'move', project.slug, 'embedded']).err).toContain('already');
  expect(run(['projects', 'move', project.slug, 'db2']).status).toBe(0);
  const drained = run(['servers', 'drain', 'db2']);
  expect([drained.status, drained.err]).toEqual([0, expect.stringContaining('Projects moved: 1.')]);
  expect(await portOf()).not.toEqual([{ port }]);
  expect(run(['servers', 'drain', 'db2', '--undo']).out).toMatch(/state +ready/);
  expect(doctor()).toMatchObject([
    { state: 'ok', found: expect.stringContaining('usable') },
    { state: 'warning', found: expect.stringContaining('not backed up') },
  ]);

  await second.stop();
  await until('every process notices', async () => {
    const text = await (await fetch(`${service.url}/metrics`)).text();
    return /^rowhouse_server_up\{server="db2"\} 0$/m.test(text);
  });
  expect(run(['servers', 'list']).out).toMatch(/\ndb2 +unavailable /);
  expect(doctor()).toMatchObject([{ state: 'problem' }]);
  expect(await service.stop()).toBe(0);
});
