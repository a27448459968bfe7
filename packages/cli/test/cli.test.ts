import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { lackedByPostgres, remedyOf } from '../../server/src/settings/security-fixes.ts';
import { until } from '../../server/test/support/helpers.ts';
import {
  cleanUp,
  freePort,
  launch,
  newAccountKey,
  newDataFolder,
  postmasterPid,
  type Running,
  usedDataFolder,
} from '../../server/test/support/process.ts';

const bin = fileURLToPath(new URL('../bin/rowhouse.mjs', import.meta.url));
const key = newAccountKey();
let service: Running;
let data = '';
afterAll(cleanUp);

function run(args: string[], env: Record<string, string> = {}) {
  const clean = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith('ROWHOUSE_')),
  );
  const result = spawnSync(process.execPath, [bin, ...args], {
    encoding: 'utf8',
    env: {
      ...clean,
      NO_COLOR: '1',
      XDG_CONFIG_HOME: '/nowhere',
      ROWHOUSE_URL: service?.url ?? '',
      ROWHOUSE_API_KEY: key,
      ...env,
    },
  });
  expect(result.stderr).not.toContain('    at ');
  return { status: result.status, out: result.stdout, err: result.stderr };
}
const json = (...args: string[]) => JSON.parse(run([...args, '--json']).out);

describe('the command line with a running service', () => {
  beforeAll(async () => {
    data = await usedDataFolder();
    service = await launch({ ROWHOUSE_DATA: data, ROWHOUSE_ACCOUNT_KEY: key });
  });

  it('status shows the version of PostgreSQL and that the service is ready', () => {
    const { status, out } = run(['status']);
    expect(status).toBe(0);
    expect(out).toMatch(/PostgreSQL +18\./);
    expect(out).toMatch(/ready/);
  });

  it('projects: creates, lists, changes, deletes and restores', () => {
    const created = run(['projects', 'create', 'My Shop', '--limit-mb', '64']);
    expect([created.status, created.err]).toEqual([0, '']);
    expect(created.out).toMatch(/rh_proj_\w{49}/);
    expect(run(['projects', 'list']).out).toMatch(/^SLUG .*\nmy-shop +My Shop +0\.00 +64 +ready/);
    expect(run(['projects', 'show', 'my-shop']).out).toContain('my-shop');
    expect(json('projects', 'limit', 'my-shop', '128').project.limit_mb).toBe(128);
    expect(run(['projects', 'connection', 'my-shop']).out).toMatch(
      /^postgres:\/\/p_\w+:\S+@127\.0\.0\.1:\d+\/p_\w+\n$/,
    );
    const refused = run(['projects', 'delete', 'my-shop']);
    expect(refused.status).toBe(1);
    expect(refused.err).toContain('--yes');
    expect(run(['projects', 'delete', 'my-shop', '--yes']).status).toBe(0);
    expect(json('projects', 'list').projects).toEqual([]);
    expect(json('projects', 'list', '--deleted').projects.length).toBe(1);
    expect(json('projects', 'restore', 'my-shop').project.status).toBe('ready');
  });

  it('branches: creates, lists, resets and promotes', { tags: 'long' }, () => {
    run(['projects', 'create', 'Branched', '--slug', 'branched']);
    expect(run(['branches', 'list', 'branched']).err).toContain('no branches yet');
    const created = run([
      'branches',
      'create',
      'branched',
      'Preview',
      '--slug',
      'preview',
      '--expires',
      '7d',
    ]);
    expect([created.status, created.err]).toEqual([0, '']);
    expect(created.out).toMatch(/rh_proj_\w{49}/);
    expect(created.out).toMatch(/^parent +branched$/m);
    const live = json('branches', 'create', 'branched', 'Live', '--slug', 'live-one', '--live');
    expect([live.project.status, live.job.status]).toEqual(['ready', 'done']);
    expect(run(['branches', 'list', 'branched']).out).toMatch(
      /^SLUG .*EXPIRES\nlive-one +Live .*-\npreview +Preview +0\.\d+ +ready .*UTC .*UTC\n$/,
    );
    expect(run(['projects', 'list']).out).toMatch(
      /^SLUG +NAME +PARENT .*\n(.*\n)*preview +Preview +branched /,
    );
    // The key comes first, not when the job is done.
    const second = run(['branches', 'create', 'branched', 'Two', '--slug', 'live-two', '--live']);
    const started = /^slug +live-two\nkey +rh_proj_\w+ .*\njob +(\w+)\nslug +live-two\n/.exec(second.out);
    const job = started?.[1] ?? '';
    expect(run(['jobs', 'list']).out).toMatch(
      new RegExp(`^ID +KIND .*\\n${job} +branch +live-two +done +100 % `),
    );
    expect(run(['jobs', 'show', job]).out).toMatch(/^kind +branch\nproject +live-two\nstatus +done$/m);
    expect(run(['jobs', 'cancel', job]).out).toBe(`Job ${job} has ended already: done.\n`);
    expect(run(['jobs', 'show', 'none']).err).toContain('job_not_found');
    for (const action of ['reset', 'promote']) {
      const refused = run(['branches', action, 'preview']);
      expect([refused.status, refused.err.includes('--yes')]).toEqual([1, true]);
    }
    expect(json('branches', 'reset', 'preview', '--yes').project.slug).toBe('preview');
    expect(run(['branches', 'promote', 'preview', '--yes']).out).toContain(
      'rowhouse projects restore preview',
    );
    for (const slug of ['branched', 'live-one', 'live-two']) run(['projects', 'delete', slug, '--yes']);
  });

  it('snapshots: lists none, and says what is missing', { tags: 'long' }, () => {
    run(['projects', 'create', 'Moments', '--slug', 'moments']);
    expect(run(['snapshots', 'list', 'moments']).err).toContain('rowhouse snapshots create moments');
    const off = run(['snapshots', 'create', 'moments', 'before']);
    expect([off.status, off.err]).toEqual([1, expect.stringContaining('backups_off')]);
    const dots = run(['snapshots', 'create', 'moments', '..']);
    expect([dots.status, dots.err]).toEqual([1, expect.stringContaining('invalid_request')]);
    const refused = run(['snapshots', 'delete', 'moments', 'before']);
    expect([refused.status, refused.err]).toEqual([1, expect.stringContaining('--yes')]);
    const missing = run(['snapshots', 'delete', 'moments', 'before', '--yes']);
    expect([missing.status, missing.err]).toEqual([1, expect.stringContaining('snapshot_not_found')]);
  });

  it('projects export writes a file when it is complete, or to stdout', () => {
    run(['projects', 'create', 'Exported', '--slug', 'exported']);
    const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-export-'));
    try {
      const file = path.join(folder, 'exported.dump');
      writeFileSync(file, 'an earlier one');
      // A file of another user of the machine, who would read along.
      const planted = `${file}.part`;
      writeFileSync(planted, 'planted', { mode: 0o666 });
      const { status, out } = run(['projects', 'export', 'exported', '--output', file]);
      expect(readFileSync(planted, 'utf8')).toBe('planted');
      rmSync(planted);
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(status).toBe(0);
      expect(out).toMatch(/^Exported exported to .*exported\.dump \([\d.]+ KB\)\.\n$/);
      expect(readFileSync(file, 'latin1').slice(0, 5)).toBe('PGDMP');
      expect(readdirSync(folder)).toEqual(['exported.dump']);
      const script = run(['projects', 'export', 'exported', '--format', 'sql', '--output', '-']);
      expect([script.status, script.out.includes('CREATE TABLE auth.users')]).toEqual([0, true]);
      const refused = run(['projects', 'export', 'nowhere', '--output', path.join(folder, 'none')]);
      expect([refused.status, refused.err]).toEqual([1, expect.stringContaining('nowhere')]);
      const unwritten = run(['projects', 'export', 'exported', '--output', path.join(folder, 'no', 'file')]);
      expect([unwritten.status, unwritten.err]).toEqual([1, expect.stringContaining('could not be written')]);
      expect(run(['projects', 'export', 'exported', '--format', 'tar']).status).toBe(2);
      expect(readdirSync(folder)).toEqual(['exported.dump']);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('projects import creates a project from a file, and reports why it cannot', { tags: 'long' }, () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-import-'));
    try {
      const file = path.join(folder, 'teas.sql');
      writeFileSync(
        file,
        'create table teas (id int);\ncopy teas from stdin;\n1\n2\n\\.\ncreate extension postgis;\n',
      );
      const { status, out } = run(['projects', 'import', file, '--name', 'Teas', '--slug', 'teas']);
      expect(status).toBe(1);
      expect(out).toMatch(
        /^slug +teas\nkey +rh_proj_\w+ .*\njob +\w+\nNot everything was taken over: one entry was lost\.\nlost {5}create extension postgis;: .*\nImported 1 table, 2 rows and 0 users\.\n→ .*--allow-losses/,
      );
      const allowed = ['projects', 'import', file, '--name', 'Again', '--limit-mb', '64', '--allow-losses'];
      expect(run(allowed).status).toBe(0);
      writeFileSync(file, 'create table teas (id int);\ngrant select on teas to neon_superuser;\n');
      const whole = run(['projects', 'import', file, '--name', 'Whole']);
      expect([whole.status, whole.out]).toEqual([
        0,
        expect.stringContaining('skipped  grant select on teas to neon_superuser;: '),
      ]);
      const given = json('projects', 'import', file, '--name', 'Given', '--limit-mb', '64');
      expect(given).toMatchObject({
        project: { slug: 'given', limit_mb: 64 },
        job: { status: 'done', result: { tables: 1, rows: 0, skipped_count: 1, lost_count: 0 } },
      });
      writeFileSync(file, 'create table teas (id int); select');
      const broken = run(['projects', 'import', file, '--name', 'Broken']);
      expect(broken.status).toBe(1);
      expect(broken.out).toContain(
        'The import failed. Nothing was left behind.\nThe dump cannot be imported: the dump ends too early: the statement "select" has no end.',
      );
      writeFileSync(file, "create table teas as select repeat('x', 100) from generate_series(1, 50000);");
      const full = run(['projects', 'import', file, '--name', 'Full', '--limit-mb', '1']);
      expect([full.status, full.out]).toEqual([
        1,
        expect.stringContaining('with a larger limit: --limit-mb'),
      ]);
      writeFileSync(file, Buffer.from([0x1f, 0x8b, 8, 0]));
      const packed = run(['projects', 'import', file, '--name', 'Packed']);
      expect([packed.status, packed.err]).toEqual([1, expect.stringContaining('gunzip')]);
      // There is no use in sending more of it.
      expect(packed.err).not.toContain('--upload');
      const missing = run(['projects', 'import', path.join(folder, 'none'), '--name', 'None']);
      expect([missing.status, missing.err]).toEqual([1, expect.stringContaining('cannot be read')]);
      expect(run(['projects', 'import', folder, '--name', 'None']).err).toContain('is a folder');
      const hidden = run(['projects', 'import', 'postgres://u:p@127.0.0.1/d', '--name', 'Private']);
      expect([hidden.status, hidden.out]).toEqual([1, expect.stringContaining('private network')]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('projects usage lists the largest tables and the space left', { tags: 'long' }, async () => {
    run(['projects', 'create', 'Used', '--slug', 'used', '--limit-mb', '8']);
    const empty = run(['projects', 'usage', 'used']);
    expect([empty.status, empty.err]).toEqual([0, '']);
    expect(empty.out).toMatch(
      /^tables +0\n[\s\S]*size +0\.00 MB\nlimit +8 MB\nheadroom +8\.00 MB\nstatus +ready/,
    );
    for (const query of [
      `create table large as select repeat('x', 1000) as text from generate_series(1, 2000)`,
      'create schema "Ä"',
      'create table "Ä"."evil\u001b[31m" as select 1 as one',
    ]) {
      const { status, body } = await service.call('POST', '/projects/used/query', { body: { query } });
      expect(status, JSON.stringify(body)).toBe(200);
    }
    const { out, err } = run(['projects', 'usage', 'used']);
    expect(err).toBe('');
    expect(out).toMatch(
      /^TABLE +ROWS ABOUT +SIZE MB +HEAP +INDEXES +TOAST\nlarge +- +2\.\d\d +2\.\d\d +0\.00 +0\.01\nÄ\.evil\ufffd\[31m /,
    );
    expect(out).toMatch(/\nheadroom +5\.\d\d MB\n/);
    const one = run(['projects', 'usage', 'used', '--tables', '1']);
    expect(one.out).not.toContain('evil');
    expect(one.err).toContain('--tables 2');
    const whole = json('projects', 'usage', 'used');
    expect([whole.usage.tables.length, whole.usage.limit_mb]).toEqual([2, 8]);
    expect(whole.history.length).toBeLessThan(2);
    expect(run(['projects', 'usage', 'used', '--tables', '0']).status).toBe(2);
  });

  it('projects compact waits for the compaction and reports it', { tags: 'long' }, () => {
    run(['projects', 'create', 'Compact', '--slug', 'compact-me']);
    const { status, out } = run(['projects', 'compact', 'compact-me']);
    expect(status).toBe(0);
    expect(out).toMatch(/^status +done\ntables +\d+ of \d+\nsize +\S+ MB, \S+ before\nfreed +\S+ MB\n$/);
    expect(json('projects', 'compact', 'compact-me').compaction.status).toBe('done');
    expect(run(['projects', 'compact', 'nowhere']).status).toBe(1);
  });

  it('keys: issues, lists, revokes and rotates', { tags: 'long' }, () => {
    run(['projects', 'create', 'Keys', '--slug', 'keys']);
    const issued = json(
      'keys',
      'issue',
      'keys',
      '--name',
      'reports',
      '--scope',
      'query:read',
      '--expires',
      '30d',
    );
    expect(issued.key.scopes).toEqual(['query:read']);
    const days = (Date.parse(issued.key.expires_at) - Date.now()) / 86_400_000;
    expect(days).toBeGreaterThan(29.9);
    expect(run(['keys', 'list', 'keys']).out).toContain('reports');
    expect(json('keys', 'revoke', 'keys', issued.key.id).key.status).toBe('revoked');
    expect(json('keys', 'rotate', 'keys', '--grace', '1h').previous.status).toBe('rotated');
    expect(run(['keys', 'issue', 'keys', '--name', 'web', '--publishable']).out).toMatch(/rh_pub_\w{49}/);
  });

  it('users: creates, finds, bans, recovers and deletes', { tags: 'long' }, () => {
    run(['projects', 'create', 'Users', '--slug', 'users']);
    expect(run(['users', 'list', 'users'])).toEqual({ status: 0, out: '', err: 'There are no users yet.\n' });
    const made = json('users', 'create', 'users', 'ada@example.com', '--role', 'editor', '--verified').user;
    expect(made).toMatchObject({ role: 'editor', email_verified_at: expect.any(String) });
    expect(run(['users', 'recover', 'users', 'ada@example.com']).out).toMatch(/^code +rh_code_\w{32} /);
    expect(json('users', 'ban', 'users', made.id).user.banned_at).toEqual(expect.any(String));
    expect(json('users', 'unban', 'users', made.id).user.banned_at).toBe(null);
    expect(run(['users', 'list', 'users', '--search', 'ada']).out).toMatch(
      new RegExp(`^ID .*\\n${made.id} +ada@example.com +editor `),
    );
    expect(run(['users', 'list', 'users', '--search', 'bob']).err).toContain('No user matches.');
    const refused = run(['users', 'delete', 'users', made.id]);
    expect([refused.status, refused.err]).toEqual([1, expect.stringContaining('--yes')]);
    expect(run(['users', 'delete', 'users', made.id, '--yes']).out).toBe(
      'User ada@example.com is deleted.\n',
    );
    expect(json('users', 'list', 'users').users).toEqual([]);
  });

  it('prints failures on stderr, or as JSON on stdout, and says by the exit status what kind it is', () => {
    const missing = run(['projects', 'show', 'nowhere']);
    expect([missing.status, missing.out]).toEqual([1, '']);
    expect(missing.err).toContain('project_not_found');
    const asJson = run(['projects', 'show', 'nowhere', '--json']);
    expect([asJson.status, JSON.parse(asJson.out).error.code]).toEqual([1, 'project_not_found']);
    const wrongKey = run(['projects', 'list'], { ROWHOUSE_API_KEY: 'rh_acct_typo' });
    expect([wrongKey.status, wrongKey.err]).toEqual([4, expect.stringContaining('mistyped')]);
    const noKey = run(['projects', 'list'], { ROWHOUSE_API_KEY: '' });
    expect([noKey.status, noKey.err]).toEqual([4, expect.stringContaining('key')]);
    const unknown = run(['project', 'list']);
    expect([unknown.status, unknown.err]).toEqual([2, expect.stringContaining('projects')]);
  });

  it('the start says which security fixes its PostgreSQL lacks, and what to do', () => {
    const [, version = ''] = /on PostgreSQL (\S+)/.exec(service.output()) ?? [];
    const lacked = lackedByPostgres(version);
    expect(version).not.toBe('');
    expect(service.output().includes('lacks the security fixes of')).toBe(lacked !== null);
    if (lacked) expect(service.output()).toContain(`To fix it: ${remedyOf(lacked, true)}`);
  });

  it('doctor recognises the running service', () => {
    const { status, out } = run(['doctor', '--data', data, '--port', new URL(service.url).port]);
    expect(out).toMatch(/ok +service +running on this data folder/);
    expect(out).toMatch(/ok +projects +up to date with this version/);
    expect(out).toMatch(/ok +port .* used by the service that runs on this data folder/);
    expect(status).toBe(0);
  });
});

it('docs/cli.md names every command', () => {
  const page = readFileSync(new URL('../../../docs/cli.md', import.meta.url), 'utf8');
  const ours = [...page.matchAll(/^\| [^|]+ \| ((?:[^|\\]|\\\|)+) \|/gm)]
    .map(([, cell = '']) => cell)
    .join(' ');
  const named = [...ours.matchAll(/`([a-z-]+)(?: ([^`]*))?`/g)].flatMap(([, group = '', rest = '']) => [
    group,
    ...rest.split('\\|').map((one) => `${group} ${one.split(' ')[0]}`),
  ]);
  const { out } = run(['completion', 'bash']);
  const commands = [...out.matchAll(/^ {4}'([a-z -]+)'\) words='/gm)].map(([, path = '']) => path);
  expect(commands).toContain('projects create');
  // Those of an option are no commands.
  expect(commands.filter((path) => !path.includes('--') && !named.includes(path))).toEqual([]);
});

it('status explains how to start a service when none is running', async () => {
  const { status, err } = run(['status'], { ROWHOUSE_URL: `http://127.0.0.1:${await freePort()}` });
  expect(status).toBe(3);
  expect(err).toContain('rowhouse start');
});

it('start takes flags, and the service ends when start ends or is killed', {
  tags: 'long',
}, async () => {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const folder = newDataFolder();
    const port = await freePort();
    const child = spawn(process.execPath, [
      bin,
      'start',
      '--data',
      folder,
      '--port',
      String(port),
      ...['--spares', '0', '--backup-url', 'off'],
    ]);
    let output = '';
    child.stdout.on('data', (data) => {
      output += data;
    });
    await until('ready', async () => output.includes('\nready\n'));
    expect(output).toContain(`address      http://127.0.0.1:${port}`);
    child.kill(signal);
    const [code] = await once(child, 'exit');
    if (signal === 'SIGTERM') expect(code).toBe(0);
    await until('PostgreSQL is stopped', async () => postmasterPid(folder) === null);
  }
});
