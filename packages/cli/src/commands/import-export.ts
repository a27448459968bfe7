// rowhouse import and rowhouse export: a whole project, or the rows of one table.
import type { ExportFormat } from '@rowhouse/api';
import { type Command, Option } from 'commander';
import { type ApiOptions, withApiOptions, withProjectOption } from '../api.ts';
import { failure } from '../failure.ts';
import { positive } from '../numbers.ts';
import { projectOf } from '../profiles.ts';
import { exportProject, formats } from './projects-export.ts';
import { importProject } from './projects-import.ts';
import { exportRows, importRows } from './tables.ts';

type FileOptions = ApiOptions & { project?: string; table?: string; format?: string };

export function addFiles(program: Command): void {
  withProjectOption(withApiOptions(program.command('import <source>')))
    .summary('import rows into a table, or a dump as a new project')
    .description(
      'Import the rows of a CSV or JSON lines file into a table (--table), or a dump or a server (postgres://…) as a new ' +
        'project (--name). -: stdin.',
    )
    .option('--table <table>', 'table that gets the rows, all or none')
    .addOption(
      new Option('--format <format>', 'of the rows (default: by the name of the file)').choices([
        'csv',
        'jsonl',
      ]),
    )
    .option('--name <name>', 'name of the new project')
    .option('--limit-mb <number>', 'of the new project: size limit in megabytes (default: 512)', positive)
    .option('--slug <slug>', 'of the new project (default: derived from the name)')
    .option('--upload <id>', 'continue an upload of the same dump that was interrupted')
    .action(importFile);
  withProjectOption(withApiOptions(program.command('export [file]')))
    .summary('export a project, or the rows of a table')
    .description(
      'Export a project with its users (custom: for pg_restore, sql: for psql, csv: a zip), or the rows of a table (--table: ' +
        'csv or jsonl). -: stdout.',
    )
    .option('--table <table>', 'only the rows of this table')
    .addOption(
      new Option(
        '--format <format>',
        'format of the file (default: custom; for a table by the name of the file)',
      ).choices([...formats, 'jsonl']),
    )
    .action(exportFile);
}

type ImportOptions = FileOptions & { name?: string };

async function importFile(source: string, options: ImportOptions): Promise<void> {
  const { table, name } = options;
  if ((table === undefined) === (name === undefined))
    throw failure(
      'invalid_request',
      'Say where the data goes.',
      'Rows go into a table: --table <table>. A dump becomes a new project: --name <name>.',
    );
  if (table === undefined) return importProject(source, { ...options, name: name as string });
  return importRows(
    await projectOf(options),
    table,
    source,
    options as ApiOptions & { format?: 'csv' | 'jsonl' },
  );
}

async function exportFile(file: string | undefined, options: FileOptions): Promise<void> {
  const slug = await projectOf(options);
  const { table, format } = options;
  if (table !== undefined) {
    if (format === 'custom' || format === 'sql')
      throw failure('invalid_request', 'The rows of a table are written as csv or jsonl.');
    return exportRows(slug, table, file, options as ApiOptions & { format?: 'csv' | 'jsonl' });
  }
  if (format === 'jsonl')
    throw failure('invalid_request', 'JSON lines have the rows of one table: add --table.');
  const given = { ...options, format: (format ?? 'custom') as ExportFormat };
  return exportProject(slug, { ...given, ...(file !== undefined && { output: file }) });
}
