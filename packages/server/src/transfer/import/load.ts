// Fills a new project from a dump, with two roles, neither of them the service's own: the project's role runs the
// statements of the dump, and the role that owns users stores the users. No statement of a dump runs with more rights.

import { errors, RowhouseError } from '../../errors/errors.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import { roleOf } from '../../servers/databases/names.ts';
import type { Server } from '../../servers/server.ts';
import { magic, readArchive } from '../read/archive.ts';
import { BrokenDump } from '../read/broken-dump.ts';
import { countContents, countNothing } from '../read/contents.ts';
import type { Count } from '../read/counted.ts';
import type { DumpFile } from '../read/dump-file.ts';
import { ImportSession, type SessionLimits } from './import-session.ts';
import { authRowsOf, countEntries, loadArchive, openBlocks } from './load-archive.ts';
import { loadScript, lookThrough } from './load-script.ts';
import { type Origin, OriginSearch } from './origin.ts';
import { type ImportReport, Reporting } from './report.ts';
import { Runner } from './runner.ts';
import { type AuthRows, importUsers } from './users.ts';

type Options = {
  server: Server;
  project: ProjectLogin;
  file: DumpFile;
  limits: SessionLimits;
  /** Infinity: a dump of our own, which may contain whatever its project contains. */
  maxUnpackedBytes: number;
  signal: AbortSignal;
  progress: (fraction: number) => void;
  /** Stores the users instead of those in the dump. */
  users?: () => Promise<void>;
  /** The dump adds to a project that has its tables and privileges already. */
  isPart?: boolean;
};

export async function loadDump(options: Options): Promise<ImportReport> {
  try {
    return await load(options);
  } catch (error) {
    if (options.signal.aborted) throw options.signal.reason;
    if (error instanceof BrokenDump) throw errors.brokenDump(error.message, error.hint);
    // The session was lost: PostgreSQL is gone, or the dump ended its own session.
    throw error instanceof RowhouseError ? error : errors.unavailable(error);
  }
}

type Dump = {
  origin: Origin;
  authRows: readonly AuthRows[];
  load: (runner: Runner) => Promise<void>;
};

async function load(options: Options): Promise<ImportReport> {
  const { server, project, limits, signal, progress, isPart = false } = options;
  const dump = await open(options);
  const report = new Reporting();
  progress(0.05);
  if (options.users) await options.users();
  else await storeUsers(options, dump, report);
  const session = await ImportSession.open(server, project, limits, signal);
  try {
    // What the dump creates must not be open to users because a new project is: only the dump's own grants count.
    if (!isPart) for (const statement of usualGrants('revoke', 'from')) await session.run(statement);
    // A part has none of the tables by which a dump of Rowhouse is recognized.
    const origin = isPart ? { ...dump.origin, isRowhouse: true } : dump.origin;
    const runner = new Runner({ session, origin, role: roleOf(project.id), report });
    await runner.begin();
    await dump.load(runner);
    await runner.flush();
    await commit(session);
    await runner.tryAgain();
    // Others work in a project that has its tables already.
    if (!isPart) await runner.reportRemovedRows();
    if (!origin.isRowhouse && !isPart)
      for (const statement of usualGrants('grant', 'to')) await session.run(statement);
    await session.run('reset all');
    // Commits wait for the disk again: this one, and with it all before.
    await session.run('set synchronous_commit = on');
    if (!isPart) await session.run('analyze');
  } finally {
    session.close();
  }
  return report.toReport();
}

async function storeUsers(
  { server, project, limits, signal }: Options,
  { authRows }: Dump,
  report: Reporting,
): Promise<void> {
  const asOwner: ProjectLogin = { ...project, passwordVersion: 1, loginAs: 'auth' };
  const session = await ImportSession.open(server, asOwner, limits, signal);
  try {
    await importUsers(session, authRows, report);
  } finally {
    session.close();
  }
}

/** A transaction that the dump has left open. */
async function commit(session: ImportSession): Promise<void> {
  if (!session.isInTransaction) return;
  const { error, tag } = await session.run('commit');
  if (error || tag !== 'COMMIT')
    throw errors.importFailed(error?.message ?? 'its transaction was rolled back');
}

/** As rowhouse.open_to_users grants them in a new project. */
function usualGrants(verb: 'grant' | 'revoke', preposition: 'to' | 'from'): string[] {
  const rest = (rights: string, objects: string) =>
    `alter default privileges in schema public ${verb} ${rights} on ${objects} ${preposition} authenticated`;
  return [rest('select, insert, update, delete', 'tables'), rest('usage, select', 'sequences')];
}

async function open({ file, maxUnpackedBytes, progress }: Options): Promise<Dump> {
  const count = countTo(maxUnpackedBytes);
  const contents = Number.isFinite(maxUnpackedBytes) ? countContents() : countNothing;
  const start = await file.read(0, magic.length);
  const later = (fraction: number) => progress(0.05 + fraction * 0.9);
  if (start.toString('latin1') !== magic) {
    const { origin, authRows } = await lookThrough(file, count, contents);
    return { origin, authRows, load: (runner) => loadScript(file, runner, count, later) };
  }
  const archive = await readArchive(file);
  if (archive.entries.length === 0) throw new BrokenDump('the dump has no entry');
  await countEntries(archive, contents);
  const opened = await openBlocks(file, archive, count);
  const search = new OriginSearch();
  for (const entry of archive.entries) {
    search.note(entry);
    search.noteStatement(entry.copy ?? entry.text, entry, true);
  }
  return {
    origin: search.result(),
    authRows: authRowsOf(opened),
    load: (runner) => loadArchive(opened, runner, later),
  };
}

/** A small file can unpack to any size. */
function countTo(maxBytes: number): Count {
  let left = maxBytes;
  return (bytes) => {
    left -= bytes;
    if (left < 0) {
      throw new BrokenDump(
        `the dump unpacks to more than ${Math.floor(maxBytes / 1024 / 1024)} MB, which limit_mb cannot hold`,
        'Import it with a higher limit_mb.',
      );
    }
  };
}
