// rowhouse tables: lists the tables of a project, and copies rows between a table and a file of CSV or JSON lines.
import { createReadStream, createWriteStream } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { TablesResponse } from '@rowhouse/api';
import type { Command } from 'commander';
import { type ApiOptions, callApi, openRows, sendStream, withListOptions } from '../api.ts';
import { counter, sizeOf } from '../counter.ts';
import { failure } from '../failure.ts';
import { progressOf, show, showList } from '../output.ts';
import { clean, formatTable } from '../table.ts';

type Format = 'csv' | 'jsonl';
const types = { csv: 'text/csv', jsonl: 'application/x-ndjson' } as const;

export function addTables(program: Command): void {
  const tables = program
    .command('tables')
    .summary('list the tables of a project')
    .description(
      'List the tables of a project. Rows are copied with rowhouse import --table and rowhouse export --table.',
    );
  withListOptions(
    tables.command('list <slug>').description('List the tables and views of a project.'),
  ).action(list);
}

async function list(slug: string, options: ApiOptions): Promise<void> {
  const answer = await callApi<TablesResponse>(options, 'GET', ['projects', slug, 'tables']);
  showList(options, answer, answer.tables, {
    table: () =>
      formatTable(
        [
          { title: 'TABLE', max: 60 },
          { title: 'KIND' },
          { title: 'ROWS ABOUT', align: 'right' },
          { title: 'SIZE', align: 'right' },
        ],
        answer.tables.map((one) => [
          one.schema === 'public' ? one.name : `${one.schema}.${one.name}`,
          one.kind,
          one.row_estimate ?? '-',
          sizeOf(one.size_bytes),
        ]),
      ),
    empty: `There are no tables yet. Make one: rowhouse sql -p ${slug} "create table …"`,
  });
}

type FileOptions = ApiOptions & { format?: Format };

export async function importRows(
  slug: string,
  table: string,
  file: string,
  options: FileOptions,
): Promise<void> {
  const format = formatOf(file, options.format);
  const total = file === '-' ? null : await sizeOfFile(file);
  const count = counter(progressOf(options), total);
  try {
    const source = file === '-' ? process.stdin : createReadStream(file);
    source.on('error', (error: Error) => count.stream.destroy(error));
    const path = ['projects', slug, 'tables', table];
    const body = source.pipe(count.stream);
    const answer = await sendStream<{ row_count: number }>(
      options,
      'POST',
      path,
      { 'content-type': types[format] },
      body,
    );
    count.stop();
    show(options, answer, ({ row_count: rows }) => clean(`Inserted ${rows} rows into ${table}.`));
  } finally {
    count.stop();
  }
}

export async function exportRows(
  slug: string,
  table: string,
  file: string | undefined,
  options: FileOptions,
): Promise<void> {
  const format = formatOf(
    file ?? '-',
    options.format ?? (file === undefined || file === '-' ? 'csv' : undefined),
  );
  const path = ['projects', slug, 'tables', table];
  const rows = await openRows(options, 'GET', path, types[format], {});
  if (file === undefined || file === '-') return pipeline(rows, process.stdout, { end: false });
  const count = counter(progressOf(options));
  const part = `${file}.part`;
  try {
    await pipeline(rows, count.stream, createWriteStream(part, { mode: 0o600, flags: 'wx' }));
    await rename(part, file);
  } catch (error) {
    await rm(part, { force: true });
    throw failure('not_written', `The rows could not be written: ${(error as Error).message}.`);
  } finally {
    count.stop();
  }
  show(options, { ok: true, file, bytes: count.bytes() }, ({ bytes }) =>
    clean(`Exported ${table} to ${file} (${sizeOf(bytes)}).`),
  );
}

function formatOf(file: string, given: Format | undefined): Format {
  if (given) return given;
  if (/\.csv$/i.test(file)) return 'csv';
  if (/\.(jsonl|ndjson)$/i.test(file)) return 'jsonl';
  throw failure(
    'invalid_request',
    'The format of the rows is not known.',
    'Add --format csv or --format jsonl.',
  );
}

async function sizeOfFile(file: string): Promise<number> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    throw failure('not_readable', `The file cannot be read: ${(error as Error).message}.`);
  }
}
