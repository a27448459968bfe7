// One run of pg_dump, whichever program it is: how it is asked, and how it fails.

import type { Address } from '../../postgres/admin/database.ts';
import { dumpLockWaitMs } from '../../settings/limits/exports.ts';

/** `signal`: ends it at once, with its reason as the error. */
export type DumpRun = Readonly<{
  address: Address;
  args: string[];
  env: Record<string, string>;
  signal: AbortSignal;
  /** If it is not the usual limit, which each of the two programs has. */
  maxMemoryMb?: number | undefined;
}>;

/** pg_dump has ended without having dumped everything. The message holds its first error. */
export class DumpError extends Error {
  override readonly name = 'DumpError';

  constructor(said: string) {
    // The program calls itself pg_dump, or by the name of the file that runs the WebAssembly.
    const [, problem] = /^[\w.-]+: error: (.*)$/m.exec(said) ?? [];
    // The C library and WebAssembly say this in their own words, without the name of the program.
    const lacksMemory = /\bmemory\b/i.test(said) ? 'it needs more memory than it gets' : null;
    super((problem ?? /^pg_dump: (.*)$/m.exec(said)?.[1] ?? lacksMemory ?? 'failed').trim());
  }
}

/** How long pg_dump waits for tables that others have locked. */

/**
 * Schema `rowhouse` is the service's own, and in `pg_catalog` it has only revoked some functions: every project has both
 * from the start, so they are left out. Owners and grants are in the dump: an import needs them to tell the project's
 * objects from those of the users.
 */
export function dumpArguments(format: 'custom' | 'sql', { user, database }: Address): string[] {
  return [
    ...(format === 'sql' ? ['--format=plain'] : ['--format=custom', '--compress=gzip:1']),
    '--exclude-schema=rowhouse',
    '--exclude-schema=pg_catalog',
    `--lock-wait-timeout=${dumpLockWaitMs}`,
    '--no-password',
    `--username=${user}`,
    `--dbname=${database}`,
  ];
}

/**
 * Settings of the session. pg_dump sets search_path, row_security and restrict_nonsystem_relation_kind itself, and reads
 * in a transaction that cannot write. A backend whose client is gone notices within a second.
 */
const options = '-c default_transaction_read_only=on -c client_connection_check_interval=1000';

export function dumpEnvironment({ password }: Address, sessionName: string): Record<string, string> {
  return {
    PGPASSWORD: password,
    PGAPPNAME: sessionName,
    PGOPTIONS: options,
    PGCLIENTENCODING: 'UTF8',
    PGSSLMODE: 'disable',
    PGGSSENCMODE: 'disable',
  };
}
