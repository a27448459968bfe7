import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { roleOf } from '../../src/servers/databases/names.ts';
import { writeArchive } from '../support/archives.ts';
import { corpus, download, type Project, run } from '../support/exports.ts';
import { jobEnd, openSecondProcess, useTestService } from '../support/helpers.ts';
import { importDump, upload } from '../support/importing.ts';
import { codeAndViews, constraintsAndTables, everyType, rightsAndNames } from './schemas.ts';

const rowhouse = useTestService({
  imports: { allowPrivateHosts: true },
});

async function filled(): Promise<Project> {
  const project = await rowhouse.project('Source');
  await run(rowhouse, project, ...corpus);
  for (const email of ['ada@example.com', 'Bob@Example.com']) {
    const { status } = await rowhouse.call('POST', `/projects/${project.slug}/auth/signup`, {
      key: project.key,
      body: { email, password: 'correct horse battery', data: { name: 'tab\t"quote" \\ ü' } },
    });
    expect(status).toBe(201);
  }
  await run(
    rowhouse,
    project,
    "update teas set owner = (select id from auth.users where email = 'ada@example.com')",
  );
  return project;
}

/** A dump without what has to differ: random words, the names of roles, and rows that no import takes over. */
async function comparable(project: Project): Promise<string> {
  const { status, bytes } = await download(rowhouse, project, 'sql');
  expect(status).toBe(200);
  return bytes
    .toString()
    .replace(/^\\(un)?restrict .*$/gm, '')
    .replaceAll(roleOf(project.id), 'p_role')
    .replace(/^COPY auth\.(sessions|attempts|places|codes) [\s\S]*?^\\\.$/gm, '')
    .replace(/16\d{3}|17\d{3}/g, 'oid');
}

describe('a project', () => {
  it.each(['custom', 'sql'])('exported as %s and imported is the same', async (format) => {
    const source = await filled();
    const { bytes } = await download(rowhouse, source, format);
    const { project, job } = await importDump(rowhouse, bytes);
    expect(job.error).toBeNull();
    expect(job.result).toEqual({
      tables: 7,
      rows: 8,
      users: 2,
      large_objects: format === 'sql' ? 0 : 1,
      skipped: [],
      skipped_count: 0,
      lost_count: 0,
    });
    expect(await comparable(project)).toBe(await comparable(source));
    for (const email of ['ada@example.com', 'bob@example.com']) {
      const { status, body } = await rowhouse.call('POST', `/projects/${project.slug}/auth/signin`, {
        key: project.key,
        body: { email, password: 'correct horse battery' },
      });
      expect([status, body.user?.data]).toEqual([200, { name: 'tab\t"quote" \\ ü' }]);
    }
  });

  it.each(['custom', 'sql'])(
    'with one of everything, as %s, is the same',
    { tags: 'long' },
    async (format) => {
      const source = await filled();
      await run(rowhouse, source, ...everyType, ...constraintsAndTables, ...codeAndViews, ...rightsAndNames);
      const { bytes } = await download(rowhouse, source, format);
      const { project, job } = await importDump(rowhouse, bytes);
      expect([job.error, job.result?.skipped]).toEqual([null, []]);
      expect(await comparable(project)).toBe(await comparable(source));
      // A dump has no rows of materialised views.
      const sums =
        'select (select json_agg(s) from shop.sums s), (select count(*) from shop.of_sums), (select n from counted)';
      expect((await run(rowhouse, project, sums)).rows).toEqual((await run(rowhouse, source, sums)).rows);
      // And once more: what was imported can be exported and imported again.
      const again = await importDump(rowhouse, (await download(rowhouse, project, format)).bytes);
      expect([again.job.error, again.job.result?.skipped]).toEqual([null, []]);
      expect(await comparable(again.project)).toBe(await comparable(source));
    },
  );

  it('that is sent twice with one Idempotency-Key is imported once', async () => {
    const send = () =>
      rowhouse.call('POST', '/projects/import?name=Once', {
        raw: 'create table t ();\n',
        headers: { 'content-type': 'application/sql', 'idempotency-key': 'import-once' },
      });
    const [first, second] = [await send(), await send()];
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(second.body).toEqual(first.body);
    expect((await jobEnd(rowhouse, first.body.job.id)).result.tables).toBe(1);
  });

  it('as INSERTs is imported whole, or not', async () => {
    const rows = Array.from({ length: 1_000 }, (_, n) => `INSERT INTO t VALUES (${n}), (${n});`);
    const script = (more: string) => `create table t (n int check (n <> 7777));\n${rows.join('\n')}\n${more}`;
    const whole = await importDump(
      rowhouse,
      script('insert into missing values (1);\ninsert into t values (5000);\n'),
    );
    expect([whole.job.error, whole.job.result]).toMatchObject([
      null,
      { rows: 2_001, skipped: [{ reason: 'relation "missing" does not exist' }] },
    ]);
    expect((await run(rowhouse, whole.project, 'select count(*)::int as n from t')).rows).toEqual([
      { n: 2_001 },
    ]);
    const bad = await importDump(rowhouse, script('insert into t values (7777);\n'));
    expect([bad.job.status, bad.job.error.code]).toEqual(['failed', 'invalid_dump']);
    expect(bad.job.error.message).toContain('violates check constraint');
  });

  it.each([12, 13, 15])('of an old pg_dump (archive 1.%i) is imported', async (minor) => {
    const path = "SELECT pg_catalog.set_config('search_path', 'shop, public', false);";
    const archive = writeArchive(
      [
        { kind: 'ENCODING', text: "SET client_encoding = 'UTF8';" },
        { kind: 'STDSTRINGS', text: "SET standard_conforming_strings = 'on';" },
        // Without one, names are found in the schema of their entry.
        ...(minor > 12 ? [{ kind: 'SEARCHPATH', text: path }] : []),
        { kind: 'SCHEMA', name: 'shop', text: 'CREATE SCHEMA shop;' },
        { kind: 'TABLE', name: 'teas', schema: 'shop', text: 'CREATE TABLE teas (id int, name text);' },
        { kind: 'BLOB', name: '900', text: "SELECT pg_catalog.lo_create('900');" },
        {
          kind: 'TABLE DATA',
          name: 'teas',
          schema: 'shop',
          copy: 'COPY teas (id, name) FROM stdin;\n',
          data: '1\tAssam\n',
        },
        { kind: 'BLOBS', name: 'BLOBS', largeObjects: { 900: Buffer.from('bytes') } },
        {
          kind: 'ACL',
          name: 'teas',
          schema: 'shop',
          text: 'REVOKE ALL ON TABLE teas FROM PUBLIC;\nGRANT ALL ON TABLE teas TO owner;',
        },
      ],
      { minor },
    );
    const { project, job } = await importDump(rowhouse, archive);
    expect(job.result).toEqual({
      tables: 1,
      rows: 1,
      users: 0,
      large_objects: 1,
      skipped: [],
      skipped_count: 0,
      lost_count: 0,
    });
    const { rows } = await run(
      rowhouse,
      project,
      "select name, convert_from(lo_get(900), 'UTF8') as blob from shop.teas",
    );
    expect(rows).toEqual([{ name: 'Assam', blob: 'bytes' }]);
  });

  it('whose transaction stays open is committed', async () => {
    const { project, job } = await importDump(rowhouse, 'begin;\ncreate table t as select 1 as one;\n');
    expect(job.status).toBe('done');
    expect((await run(rowhouse, project, 'select one from t')).rows).toEqual([{ one: 1 }]);
    const text = 'begin; create table public.t as select 1 as one;';
    const archive = await importDump(rowhouse, writeArchive([{ kind: 'TABLE', schema: 'public', text }]));
    expect((await run(rowhouse, archive.project, 'select one from t')).rows).toEqual([{ one: 1 }]);
  });

  it('is refused while the disk is low', async () => {
    const disk = { folder: tmpdir(), reserveBytes: Number.MAX_SAFE_INTEGER };
    const low = await openSecondProcess(rowhouse, { disk });
    try {
      const { status, body } = await upload(
        { ...low, accountKey: rowhouse.accountKey },
        'create table t ();\n',
      );
      expect([status, body.error.code]).toEqual([507, 'server_full']);
    } finally {
      await low.stop();
    }
  });
});
