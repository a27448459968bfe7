// rowhouse migrate diff: the SQL between the migrations and a project, or between two projects.
import type { CreatedProjectResponse } from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, withApiOptions, withProjectOption } from '../api.ts';
import { Failure, failure } from '../failure.ts';
import { saveMigrations, textOf } from '../migrate-save.ts';
import { readMigrations } from '../migration-files.ts';
import { apply, mark, readApplied } from '../migration-history.ts';
import { note, show } from '../output.ts';
import { projectOf } from '../profiles.ts';
import { diffSchemas } from '../schema-diff.ts';
import { readSchema, type SchemaObject } from '../schema-objects.ts';
import { clean } from '../table.ts';

type DiffOptions = ApiOptions & { dir: string; project?: string; against?: string; save?: string };

export function addDiff(migrate: Command, dir: readonly [string, string, string]): void {
  withProjectOption(withApiOptions(migrate.command('diff')))
    .description(
      'Print the SQL that the migrations lack to give the schema of the project: they are applied to a temporary project, ' +
        'which needs an account key. With --against, print the SQL that turns the project into another one, such as a branch.',
    )
    .option(...dir)
    .option('--against <slug>', 'compare the project with this one instead of the migrations')
    .option('--save <name>', 'write the SQL to a new migration')
    .action(diff);
}

async function diff(options: DiffOptions): Promise<void> {
  const slug = await projectOf(options);
  const { against, save } = options;
  const [before, after] = against
    ? [await readSchema(slug, options), await readSchema(against, options)]
    : [await schemaOfFiles(options), await readSchema(slug, options)];
  const statements = diffSchemas(before, after);
  const sql = textOf(statements).trimEnd();
  const isSaved = save !== undefined && statements.length > 0;
  const files = isSaved ? saveMigrations(options.dir, save, statements) : [];
  // The project is what the migrations now describe.
  const isNoted = isSaved && !against && (await noteApplied(slug, files, options));
  const [file] = files;
  const saved = file !== undefined ? { file, files, noted_as_applied: isNoted } : {};
  const answer = { ok: true, statements: statements.length, sql: statements.length > 0 ? sql : '', ...saved };
  if (statements.length === 0 && !options.json) return note(options, 'The schemas are the same.');
  show(options, answer, () =>
    isSaved
      ? files.map((one) => clean(`Written to ${one}. Read it before you apply it.`)).join('\n')
      : printable(sql),
  );
  if (!isSaved || against) return;
  note(
    options,
    isNoted
      ? clean(
          `${slug} has this state already: it is noted there as applied. After a change of the file: rowhouse migrate mark <version>`,
        )
      : clean(
          `${slug} has this state already, but lacks entries of older migrations. For each that was applied: rowhouse migrate mark <version>`,
        ),
  );
}

/** false: other migrations are pending there, so nobody knows what the project has. */
async function noteApplied(slug: string, files: readonly string[], options: DiffOptions): Promise<boolean> {
  const all = readMigrations(options.dir);
  const known = new Set((await readApplied(slug, options)).map(({ version }) => version));
  const fresh = all.filter(({ file }) => files.includes(file));
  if (all.some((one) => !fresh.includes(one) && !known.has(one.version))) return false;
  for (const migration of fresh) await mark(slug, migration, true, options);
  return true;
}

/** SQL holds names of strangers; on a terminal without control characters. */
const printable = (sql: string) => (process.stdout.isTTY ? sql.split('\n').map(clean).join('\n') : sql);

/** Applies all migrations to a project that is deleted afterwards. */
async function schemaOfFiles(options: DiffOptions): Promise<SchemaObject[]> {
  const migrations = readMigrations(options.dir);
  const body = { name: 'Temporary: migrate diff', limit_mb: 64 };
  const { project } = await callApi<CreatedProjectResponse>(options, 'POST', ['projects'], { body }).catch(
    (error: unknown) => {
      if (!(error instanceof Failure) || error.body.error.code !== 'forbidden') throw error;
      throw failure(
        'forbidden',
        'This key cannot create the temporary project to which the migrations are applied.',
        'Use an account key (rowhouse login), or compare two projects: --against <slug>',
      );
    },
  );
  try {
    for (const migration of migrations) await apply(project.slug, migration, options);
    return await readSchema(project.slug, options);
  } finally {
    await callApi(options, 'DELETE', ['projects', project.slug]).catch(() =>
      note(options, `Delete the temporary project: rowhouse projects delete ${project.slug}`),
    );
  }
}
