// rowhouse migrate and rowhouse seed: plain SQL files that bring a project to the state of an application.
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { CreatedBranchResponse } from '@rowhouse/api';
import type { Command } from 'commander';
import { callApi, withApiOptions, withListOptions, withProjectOption } from '../api.ts';
import { Failure, failure } from '../failure.ts';
import { byVersion, type Migration, newMigration, readMigrations } from '../migration-files.ts';
import { type Applied, apply, type MigrateOptions, mark, readApplied, tryOut } from '../migration-history.ts';
import { positive } from '../numbers.ts';
import { note, type OutputOptions, show, showList } from '../output.ts';
import { projectOf } from '../profiles.ts';
import { readSqlFile, runScript } from '../sql-run.ts';
import { clean, formatTable } from '../table.ts';
import { formatTime } from '../when.ts';
import { addDiff } from './migrate-diff.ts';

type Options = MigrateOptions & { dir: string; project?: string };

export function addMigrate(program: Command): void {
  const migrate = program
    .command('migrate')
    .summary('create and apply migrations: plain SQL files')
    .description(
      'Create and apply migrations: plain SQL files <version>_<name>.sql. Each runs in one transaction, with its entry in the ' +
        'table rowhouse_migrations.applied of the project. A first line "-- rowhouse: no transaction" runs its statements one by one.',
    );
  const dir = ['--dir <folder>', 'folder of the migrations', 'migrations'] as const;
  const timeout = ['--timeout <seconds>', 'of each migration (default: 30)', positive] as const;
  const add = (usage: string, about: string) =>
    withProjectOption(withApiOptions(migrate.command(usage).description(about))).option(...dir);

  migrate
    .command('new <name>')
    .description('Create an empty migration.')
    .option(...dir)
    .option('--json', 'print the result as JSON')
    .action(create);
  add('up', 'Apply all migrations that were not applied yet, in the order of their versions.')
    .option(...timeout)
    .option('--to <version>', 'stop after this version')
    .option('--include-older', 'also apply migrations that are older than the newest applied one')
    .option(
      '--dry-run',
      'apply them to a branch that is deleted afterwards; with a project key, undo them instead',
    )
    .action(up);
  withProjectOption(
    withListOptions(migrate.command('status').description('List migrations and whether they are applied.')),
  )
    .option(...dir)
    .action(status);
  add('mark <version>', 'Note that a migration was applied, without running it.')
    .option('--undo', 'note that it was not applied')
    .action(markOne);
  addDiff(migrate, dir);

  withProjectOption(withApiOptions(program.command('seed [file]')))
    .summary('run a file of sample rows')
    .description(
      'Run a file of sample rows, in one transaction (default: seed.sql, or seed.sql in the folder migrations).',
    )
    .option(...timeout)
    .action(seed);
}

function create(name: string, options: OutputOptions & { dir: string }): void {
  const file = newMigration(options.dir, name, `-- ${name}\n`);
  show(options, { ok: true, file }, () => clean(`Created ${file}. When it is written: rowhouse migrate up`));
}

type UpOptions = Options & { to?: string; includeOlder?: boolean; dryRun?: boolean };

async function up(options: UpOptions): Promise<void> {
  const slug = await projectOf(options);
  const migrations = readMigrations(options.dir);
  const applied = await readApplied(slug, options);
  const pending = pendingOf(migrations, applied, options);
  if (options.dryRun) return dryRun(slug, pending, options);
  const done: Migration[] = [];
  for (const migration of pending) {
    const isOurs = await apply(slug, migration, options).catch((error: unknown) => {
      if (done.length > 0) note(options, `Applied before that: ${done.length}. They stay.`);
      throw error;
    });
    if (isOurs) done.push(migration);
    note(options, clean(`${isOurs ? 'applied' : 'was applied meanwhile'}  ${path.basename(migration.file)}`));
  }
  const answer = { ok: true, project: slug, applied: done.map(({ version, name }) => ({ version, name })) };
  show(options, answer, () =>
    pending.length === 0
      ? `${slug} is up to date: ${applied.length} migrations.`
      : `Applied ${done.length} ${done.length === 1 ? 'migration' : 'migrations'} to ${slug}.`,
  );
}

async function dryRun(slug: string, pending: Migration[], options: UpOptions): Promise<void> {
  const answer = (on: string) => ({ ok: true, dry_run: on, pending: pending.map(({ file }) => file) });
  const end = (on: string) =>
    show(options, answer(on), () =>
      pending.length === 0
        ? `${slug} is up to date.`
        : clean(`${pending.length} migrations would be applied to ${slug}. Tried ${on}.`),
    );
  if (pending.length === 0) return end('nothing');
  const branch = await openBranch(slug, options);
  if (branch === null) {
    await tryOut(slug, pending, options);
    return end('in a transaction that was undone');
  }
  try {
    for (const migration of pending) {
      await apply(branch, migration, options);
      note(options, clean(`works  ${path.basename(migration.file)}`));
    }
  } finally {
    await callApi(options, 'DELETE', ['projects', branch]).catch(() =>
      note(options, `The branch ${branch} could not be deleted. It expires within an hour.`),
    );
  }
  end('on a branch with a copy of the data');
}

/** null: the key may not make one. */
async function openBranch(slug: string, options: Options): Promise<string | null> {
  // If this process dies, the branch ends by itself.
  const body = {
    name: `Dry run of ${slug}`.slice(0, 100),
    expires_at: new Date(Date.now() + 3_600_000).toISOString(),
  };
  try {
    const path = ['projects', slug, 'branches'];
    return (await callApi<CreatedBranchResponse>(options, 'POST', path, { body })).project.slug;
  } catch (error) {
    if (error instanceof Failure && error.body.error.code === 'forbidden') return null;
    throw error;
  }
}

/** Throws if what was applied is not what the files say. */
function pendingOf(migrations: Migration[], applied: Applied[], options: UpOptions): Migration[] {
  const known = new Map(applied.map((entry) => [entry.version, entry]));
  const changed = migrations.find(
    ({ version, checksum }) => (known.get(version)?.checksum ?? checksum) !== checksum,
  );
  if (changed)
    throw failure(
      'conflict',
      `${changed.file} was changed after it was applied.`,
      `Undo the change, and put what is new into a new migration. If the project has the new state already: rowhouse migrate mark ${changed.version}`,
    );
  const newest = applied.reduce((max, { version }) => (BigInt(version) > max ? BigInt(version) : max), -1n);
  const until = options.to === undefined ? null : BigInt(/^\d+$/.test(options.to) ? options.to : -1);
  const pending = migrations
    .filter(({ version }) => !known.has(version))
    .filter(({ version }) => until === null || BigInt(version) <= until);
  if (until !== null && !migrations.some(({ version }) => BigInt(version) === until))
    throw failure(
      'invalid_request',
      `There is no migration ${options.to}.`,
      'List them: rowhouse migrate status',
    );
  const older = pending.find(({ version }) => BigInt(version) < newest);
  if (older && !options.includeOlder)
    throw failure(
      'conflict',
      `${older.file} is older than migrations that are already applied.`,
      'Rename it to a newer version, or apply it nevertheless: rowhouse migrate up --include-older',
    );
  return pending;
}

async function status(options: Options): Promise<void> {
  const slug = await projectOf(options);
  const applied = await readApplied(slug, options);
  const files = readMigrations(options.dir);
  const entries = new Map(applied.map((entry) => [entry.version, entry]));
  const rows = [
    ...files.map(({ version, name, checksum }) => {
      const entry = entries.get(version);
      const state = !entry ? 'pending' : entry.checksum === checksum ? 'applied' : 'changed';
      return { version, name, state, applied_at: entry?.applied_at ?? null };
    }),
    ...applied
      .filter(({ version }) => !files.some((file) => file.version === version))
      .map(({ version, name, applied_at }) => ({ version, name, state: 'no file', applied_at })),
  ].sort(byVersion);
  showList(options, { ok: true, project: slug, migrations: rows }, rows, {
    table: () =>
      formatTable(
        ['VERSION', 'NAME', 'STATE', 'APPLIED'].map((title) => ({ title })),
        rows.map((row) => [row.version, row.name, row.state, formatTime(row.applied_at)]),
      ),
    empty: 'There are no migrations yet. Make one: rowhouse migrate new <name>',
  });
}

async function markOne(version: string, options: Options & { undo?: boolean }): Promise<void> {
  const slug = await projectOf(options);
  const wanted = /^\d{1,20}$/.test(version) ? String(BigInt(version)) : version;
  const migration = readMigrations(options.dir).find((one) => one.version === wanted);
  if (!migration)
    throw failure(
      'invalid_request',
      `There is no migration ${version}.`,
      'List them: rowhouse migrate status',
    );
  await mark(slug, migration, !options.undo, options);
  const state = options.undo ? 'pending' : 'applied';
  show(options, { ok: true, version: wanted, state }, () => clean(`${migration.file} is noted as ${state}.`));
}

async function seed(
  given: string | undefined,
  options: MigrateOptions & { project?: string },
): Promise<void> {
  const slug = await projectOf(options);
  const file = given ?? ['seed.sql', path.join('migrations', 'seed.sql')].find((name) => existsSync(name));
  if (!file) throw failure('not_readable', 'There is no file seed.sql.', 'Name one: rowhouse seed <file>');
  const results = await runScript(slug, { text: readSqlFile(file), name: file }, options);
  const rows = results.reduce((sum, { affected, command }) => sum + (command === 'INSERT' ? affected : 0), 0);
  const answer = { ok: true, project: slug, statements: results.length, rows };
  show(options, answer, () =>
    clean(`Ran ${file} in ${slug}: ${results.length} statements, ${rows} rows inserted.`),
  );
}
