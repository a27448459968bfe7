// rowhouse types: generates TypeScript from a project's catalog, which it reads through the API.
import { writeFileSync } from 'node:fs';
import type { BatchResponse, RunBatch } from '@rowhouse/api';
import { type Command, Option } from 'commander';
import { type ApiOptions, callApi, withApiOptions } from '../api.ts';
import { failure } from '../failure.ts';
import { note, show } from '../output.ts';
import { clean } from '../table.ts';
import { type Catalog, pinSearchPath, readCatalog } from '../types-catalog.ts';
import { type Numbers, writeTypes } from '../types-text.ts';

type TypesOptions = ApiOptions & { schema?: string[]; out?: string; numbers: Numbers };

export function addTypes(program: Command): void {
  const command = program
    .command('types <slug>')
    .summary("generate TypeScript types for a project's tables, views, enums and functions")
    .description(
      "Print TypeScript types for a project's tables, views, enums and functions. Needs a key with the scope query:read.",
    );
  const numbers = new Option(
    '--numbers <kind>',
    "type of bigint and numeric values; must match the client's option numbers",
  );
  withApiOptions(command)
    .option(
      '--schema <schema>',
      "schema to include (repeatable; default: all of the project's own schemas, without auth)",
      (name, before: string[] = []) => [...before, name],
    )
    .option('--out <file>', 'write to this file instead of stdout')
    .addOption(numbers.choices(['number', 'string', 'bigint']).default('number'))
    .action(types);
}

async function types(slug: string, options: TypesOptions): Promise<void> {
  const catalog = await askCatalog(slug, options);
  const text = writeTypes(slug, catalog, options.numbers);
  if (options.out !== undefined) {
    writeOut(options.out, `${text}\n`);
    note(options, `Written to ${clean(options.out)}.`);
  }
  if (options.out === undefined || options.json) {
    show(options, { ok: true, types: `${text}\n` }, () => text);
  }
}

async function askCatalog(slug: string, options: TypesOptions): Promise<Catalog> {
  const body: RunBatch = {
    statements: [{ query: pinSearchPath }, { query: readCatalog, params: [options.schema ?? null] }],
    read_only: true,
  };
  const { results } = await callApi<BatchResponse>(options, 'POST', ['projects', slug, 'batch'], { body });
  const catalog = results[1]?.rows[0] as Catalog | undefined;
  if (!catalog) throw failure('not_rowhouse', "The service did not return the project's catalog.");
  const available = catalog.schemas.map(({ name }) => name).sort();
  const missing = options.schema?.find((name) => !available.includes(name));
  if (missing !== undefined) {
    throw failure(
      'schema_not_found',
      `The project has no schema "${missing}" that types can be generated for.`,
      available.length > 0 ? `Available schemas: ${available.join(', ')}.` : undefined,
    );
  }
  return catalog;
}

function writeOut(file: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (error) {
    throw failure('not_written', `Cannot write ${file}: ${(error as Error).message}.`);
  }
}
