// rowhouse restore: a service whose machine is gone, brought back from its backups and its master key alone.
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { newFolder, rowhouse, start } from './installation.ts';

type Body = {
  api_key?: string;
  key?: { id: string };
  error?: { code: string };
  project?: { status: string };
  backups?: unknown[];
  restorable?: unknown[];
  rows?: { at?: string; id?: number }[];
};
type Ended = { project?: string; slug?: string; name: string; command: string };

it('an installation comes back from its backups and its master key', async () => {
  const [first, second, repository] = [newFolder(), newFolder(), newFolder()];
  const service = await start(first, repository);
  const call = async (url: string, key: string, target: string, body?: object, method?: string) => {
    const response = await fetch(url + target, {
      method: method ?? (body ? 'POST' : 'GET'),
      headers: { 'x-api-key': key, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    return (await response.json()) as Body;
  };
  const { api_key: key = '' } = await call(service.url, service.key, '/projects', {
    name: 'Shop',
    slug: 'shop',
  });
  const ask = (url: string, query: string) => call(url, key, '/projects/shop/query', { query });
  for (;;) {
    const { backups = [] } = await call(service.url, service.key, '/backups');
    if (backups.length > 0) break;
    await sleep(200);
  }
  await ask(service.url, 'create table t (id int)');
  await ask(service.url, 'insert into t values (1)');
  const here = { ROWHOUSE_URL: service.url.replace('/api/dbaas/v2', ''), ROWHOUSE_API_KEY: service.key };
  for (const name of ['one row', 'before / the sale']) {
    const made = rowhouse(['snapshots', 'create', 'shop', name], here);
    expect([made.status, made.stdout]).toEqual([
      0,
      expect.stringContaining(`"${name}" of shop is the state`),
    ]);
  }
  const removed = rowhouse(['snapshots', 'delete', 'shop', 'before / the sale', '--yes'], here);
  expect([removed.status, removed.stderr]).toEqual([0, '']);
  expect(rowhouse(['snapshots', 'list', 'shop'], here).stdout).toMatch(
    /^NAME +TIME +RESTORABLE\none row +[-\d]+T[\d:.]+Z +yes\n$/,
  );
  await call(service.url, service.key, '/projects', { name: 'Deleted later', slug: 'deleted-later' });
  const issue = { name: 'revoked later', scopes: ['query'] };
  const issued = await call(service.url, key, '/projects/shop/keys', issue);
  await sleep(10);
  const { rows = [] } = await ask(service.url, 'select clock_timestamp() as at');
  const at = rows[0]?.at ?? '';
  await sleep(10);
  await ask(service.url, 'insert into t values (2)');
  await call(service.url, service.key, '/projects/deleted-later', undefined, 'DELETE');
  await call(service.url, key, `/projects/shop/keys/${issued.key?.id}`, undefined, 'DELETE');
  const rotated = await call(service.url, key, '/projects/shop/keys/rotate', { grace_seconds: 86_400 });
  await call(service.url, service.key, '/projects', { name: 'Created later', slug: 'created-later' });
  const masterKey = readFileSync(path.join(first, 'master.key'), 'utf8').trim();
  // Stopping stores what is left.
  await sleep(3_000);
  await service.stop();
  rmSync(first, { recursive: true, force: true });

  const from = ['--from', `file:${repository}`];
  const without = rowhouse(['restore', ...from, '--data', second]);
  expect([without.status, without.stderr]).toEqual([1, expect.stringContaining('master key is missing')]);
  const wrong = rowhouse(['restore', ...from, '--data', second], { ROWHOUSE_MASTER_KEY: 'a'.repeat(64) });
  expect([wrong.status, wrong.stderr]).toEqual([1, expect.stringContaining('another master key')]);
  const empty = rowhouse(['restore', '--from', `file:${newFolder()}`, '--data', second], {
    ROWHOUSE_MASTER_KEY: masterKey,
  });
  expect([empty.status, empty.stderr]).toEqual([1, expect.stringContaining('no complete backup')]);
  const env = { ROWHOUSE_MASTER_KEY: masterKey };
  const tomorrow = new Date(Date.now() + 86_400_000).toISOString();
  const future = rowhouse(['restore', ...from, '--to', tomorrow, '--data', second], env);
  expect([future.status, future.stderr]).toEqual([1, expect.stringContaining('is in the future')]);
  expect(existsSync(path.join(second, 'postgres'))).toBe(false);

  const to = rowhouse(['restore', ...from, '--to', at, '--data', second, '--json'], env);
  expect([to.status, to.stderr]).toEqual([0, '']);
  const { since, ...report } = JSON.parse(to.stdout);
  expect(report).toMatchObject({ ok: true, projects: 2 });
  expect(since.problem).toBeUndefined();
  expect(since.projects_again.map(({ slug }: Ended) => slug)).toEqual(['deleted-later']);
  expect(since.keys_again.map(({ name, project }: Ended) => [name, project])).toEqual([
    ['project key', 'shop'],
    ['revoked later', 'shop'],
  ]);
  expect(since.projects_lost.map(({ slug }: Ended) => slug)).toEqual(['created-later']);
  expect(since.keys_lost).toMatchObject([{ project: 'shop', kind: 'project' }]);
  expect(since.projects_deleted).toEqual([]);
  expect(readdirSync(second).filter((name) => name.startsWith('postgres'))).toEqual(['postgres']);
  const again = rowhouse(['restore', ...from, '--data', second], env);
  expect([again.status, again.stderr]).toEqual([1, expect.stringContaining('already contains data')]);

  // Another place for its backups: the old one still belongs to the history that was left behind.
  const restored = await start(second, newFolder());
  expect((await ask(restored.url, 'select id from t order by id')).rows).toEqual([{ id: 1 }]);
  await ask(restored.url, 'insert into t values (3)');
  // What was ended works again, until the commands of the report have run.
  const select = { query: 'select 1' };
  const withIssued = () => call(restored.url, issued.api_key ?? '', '/projects/shop/query', select);
  expect((await withIssued()).error).toBeUndefined();
  const operator = { ROWHOUSE_URL: restored.url.replace('/api/dbaas/v2', ''), ROWHOUSE_API_KEY: service.key };
  for (const { command } of [...since.keys_again, ...since.projects_again] as Ended[]) {
    const ran = rowhouse(command.split(' ').slice(1), operator);
    expect([command, ran.status, ran.stderr]).toEqual([command, 0, '']);
  }
  expect((await withIssued()).error?.code).toBe('invalid_api_key');
  expect((await ask(restored.url, 'select 1')).error?.code).toBe('invalid_api_key');
  const gone = await call(restored.url, service.key, '/projects/deleted-later');
  expect(gone.project?.status).toBe('deleted');
  await restored.stop();

  const third = newFolder();
  const all = rowhouse(['restore', ...from, '--data', third], env);
  expect([all.status, all.stdout]).toEqual([0, expect.stringContaining('rowhouse start')]);
  // In the same place: a new history begins there.
  const whole = await start(third, repository);
  expect((await ask(whole.url, 'select id from t order by id')).rows).toEqual([{ id: 1 }, { id: 2 }]);
  expect(all.stdout).not.toContain('AGAIN');
  const newest = await call(whole.url, rotated.api_key ?? '', '/projects/shop/query', select);
  expect(newest.error).toBeUndefined();

  // The moments before the restore are still offered, and can be restored.
  const there = { ROWHOUSE_URL: whole.url.replace('/api/dbaas/v2', ''), ROWHOUSE_API_KEY: service.key };
  for (;;) {
    const { restorable = [] } = await call(whole.url, service.key, '/backups');
    if (restorable.length > 1) break;
    await sleep(200);
  }
  const listed = rowhouse(['backup', 'list'], there).stdout;
  expect(listed.match(/^restorable from /gm)).toHaveLength(2);
  expect(listed).toContain('on the disk of the data');
  expect(rowhouse(['snapshots', 'list', 'shop'], there).stdout).toMatch(/^one row .* yes$/m);
  const early = rowhouse(['projects', 'restore', 'shop', '--snapshot', 'one row', '--json'], there);
  expect([early.status, early.stderr]).toEqual([0, '']);
  const { project: copy, api_key: copyKey } = JSON.parse(early.stdout);
  const rowsThen = await call(whole.url, copyKey, `/projects/${copy.slug}/query`, {
    query: 'select id from t',
  });
  expect(rowsThen.rows).toEqual([{ id: 1 }]);
});
