// Direct connections by the URL of GET /projects/:slug/connection: PostgreSQL clients work unchanged.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { PrismaPg } from '@prisma/adapter-pg';
import { eq } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { notesTable } from './drizzle/schema.mjs';
import { folder, notes, useLiveService } from './service.mjs';

const live = useLiveService();

it('pg inserts, selects, rolls back, uses named statements and reports errors', async () => {
  const { url } = await live.project('pg');
  const client = new pg.Client(url);
  await client.connect();
  try {
    await client.query(notes);
    const { rows } = await client.query('insert into notes (text, data) values ($1, $2) returning *', [
      'tea',
      { a: 1 },
    ]);
    expect(rows).toMatchObject([{ id: 1, text: 'tea', data: { a: 1 }, at: expect.any(Date) }]);
    await client.query('begin');
    await client.query("insert into notes (text) values ('undone')");
    await client.query('rollback');
    const found = await client.query({
      name: 'all',
      text: 'select text from notes where id > $1',
      values: [0],
    });
    expect(found.rows).toEqual([{ text: 'tea' }]);
    await expect(client.query("insert into notes (text) values ('tea')")).rejects.toMatchObject({
      code: '23505',
      constraint: 'notes_text_key',
    });
  } finally {
    await client.end();
  }
});

describe('psql', () => {
  const isInstalled = spawnSync('psql', ['--version']).status === 0;
  if (!isInstalled) console.error('SKIPPED: psql is not installed, so its test does not run.');

  it.skipIf(!isInstalled)('runs scripts, copies rows and describes tables', async () => {
    const { url } = await live.project('psql');
    const psql = (script) =>
      spawnSync('psql', ['-X', '-q', '-v', 'VERBOSITY=sqlstate', url], { input: script, encoding: 'utf8' });
    expect(psql(`${notes};`)).toMatchObject({ status: 0, stderr: '' });
    const copied = psql(
      'copy notes (text) from stdin;\ntea\ncoffee\n\\.\n\\pset format unaligned\n\\pset tuples_only\nselect text from notes where id = 2;\n',
    );
    expect(copied).toMatchObject({ stdout: expect.stringMatching(/coffee\n$/), stderr: '' });
    psql("begin; insert into notes (text) values ('undone'); rollback;");
    expect(psql('\\copy notes (text) to stdout').stdout).toBe('tea\ncoffee\n');
    expect(psql("insert into notes (text) values ('tea');").stderr).toContain('ERROR:  23505');
    const described = psql('\\d notes');
    expect(described.stderr).toBe('');
    expect(described.stdout).toContain('notes_text_key');
    for (const command of ['\\dt', '\\du', '\\dn', '\\df', '\\dp']) expect(psql(command).stderr).toBe('');
  });
});

describe('drizzle', () => {
  let project;
  beforeAll(async () => {
    project = await live.project('Drizzle');
  });

  it('migrates, inserts, selects, and rolls back', async () => {
    const db = drizzle(project.url);
    try {
      await migrate(db, { migrationsFolder: `${folder}drizzle` });
      const [made] = await db
        .insert(notesTable)
        .values({ text: 'tea', tags: ['hot'], size: 5n })
        .returning();
      expect(await db.select().from(notesTable).where(eq(notesTable.text, 'tea'))).toEqual([made]);
      const failing = db.transaction(async (tx) => {
        await tx.insert(notesTable).values({ text: 'undone' });
        await tx.insert(notesTable).values({ text: 'tea' });
      });
      const error = await failing.catch((caught) => caught);
      expect(error.cause ?? error).toMatchObject({ code: '23505', constraint: 'notes_text_key' });
      await db.transaction(async (tx) => tx.insert(notesTable).values({ text: 'coffee' }), {
        isolationLevel: 'serializable',
      });
      expect(await db.$count(notesTable)).toBe(2);
    } finally {
      await db.$client.end();
    }
  });

  it('drizzle-kit reads the schema', () => {
    const out = mkdtempSync(path.join(folder, 'node_modules', 'pulled-'));
    try {
      const args = ['node_modules/drizzle-kit/bin.cjs', 'pull', '--dialect', 'postgresql'];
      const { status, stdout, stderr } = spawnSync(
        process.execPath,
        [...args, '--url', project.url, '--out', path.relative(folder, out)],
        { cwd: folder, encoding: 'utf8' },
      );
      expect(status, stdout + stderr).toBe(0);
      const schema = readFileSync(path.join(out, 'schema.ts'), 'utf8');
      for (const part of ['pgTable("notes"', 'generatedAlwaysAsIdentity', 'jsonb()', 'notes_at'])
        expect(schema).toContain(part);
    } finally {
      rmSync(out, { recursive: true, force: true });
    }
  });
});

it('kysely creates, inserts, selects, rolls back and reads the schema', async () => {
  const { url } = await live.project('Kysely');
  const db = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) });
  try {
    await db.schema
      .createTable('notes')
      .addColumn('id', 'integer', (column) => column.primaryKey().generatedAlwaysAsIdentity())
      .addColumn('text', 'text', (column) => column.notNull().unique())
      .execute();
    await db.insertInto('notes').values({ text: 'tea' }).execute();
    const failing = db.transaction().execute(async (tx) => {
      await tx.insertInto('notes').values({ text: 'undone' }).execute();
      await tx.insertInto('notes').values({ text: 'tea' }).execute();
    });
    await expect(failing).rejects.toMatchObject({ code: '23505' });
    expect(await db.selectFrom('notes').select('text').where('id', '>', 0).execute()).toEqual([
      { text: 'tea' },
    ]);
    const tables = await db.introspection.getTables();
    expect(tables.filter(({ schema }) => schema === 'public')).toMatchObject([
      {
        name: 'notes',
        columns: [
          { name: 'id', isAutoIncrementing: true },
          { name: 'text', isNullable: false },
        ],
      },
    ]);
  } finally {
    await db.destroy();
  }
});

it('prisma creates, finds, rolls back and reports errors', async () => {
  const { url } = await live.project('Prisma');
  const { PrismaClient } = (await import('@prisma/client')).default;
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) });
  try {
    await prisma.$executeRawUnsafe(notes);
    const made = await prisma.note.create({ data: { text: 'tea', tags: ['hot'], size: 9007199254740993n } });
    expect(await prisma.note.findFirst({ where: { text: 'tea' } })).toEqual(made);
    const failing = prisma.$transaction([
      prisma.note.create({ data: { text: 'undone' } }),
      prisma.note.create({ data: { text: 'tea' } }),
    ]);
    await expect(failing).rejects.toMatchObject({ code: 'P2002' });
    const serializable = prisma.$transaction(
      async (tx) => {
        await tx.note.create({ data: { text: 'undone' } });
        throw new Error('changed my mind');
      },
      { isolationLevel: 'Serializable' },
    );
    await expect(serializable).rejects.toThrow('changed my mind');
    expect(await prisma.note.count()).toBe(1);
    const wrong = prisma.$queryRaw`select nope`;
    await expect(wrong).rejects.toMatchObject({ code: 'P2010', message: expect.stringContaining('42703') });
  } finally {
    await prisma.$disconnect();
  }
});
