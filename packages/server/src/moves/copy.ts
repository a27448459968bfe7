// Fills the copy of a project by a dump: everything at once from the closed source, or the tables without their rows while it is
// in use. Users come as they are, with their sessions, codes and attempts, so that every token stays valid.

import { errors } from '../errors/errors.ts';
import type { Address } from '../postgres/admin/database.ts';
import { MigrationError } from '../postgres/admin/migrations.ts';
import { copyOut } from '../postgres/wire/copy-out.ts';
import type { Session } from '../postgres/wire/session.ts';
import { ensureDumpRole } from '../servers/databases/dump-role.ts';
import { movingDatabaseOf } from '../servers/databases/move-database.ts';
import { databaseOf } from '../servers/databases/names.ts';
import { endReplication } from '../servers/databases/publication.ts';
import { copyRoleSettings } from '../servers/databases/take-over.ts';
import type { Server } from '../servers/server.ts';
import { putProjectSchema } from '../servers/template/project-schema.ts';
import { makePieces } from '../transfer/export/export.ts';
import { DumpError } from '../transfer/export/pg-dump.ts';
import { openReader } from '../transfer/export/tables.ts';
import { ownUnpackedBytes } from '../transfer/import/import.ts';
import { ImportSession } from '../transfer/import/import-session.ts';
import { loadDump } from '../transfer/import/load.ts';
import type { ImportReport } from '../transfer/import/report.ts';
import type { Spool } from '../transfer/receive/spool.ts';

export type CopyOptions = {
  projectId: string;
  copyId: string;
  limitMb: number;
  from: Server;
  to: Server;
  /** The address for the dump role, with the name that the database has while it is closed. */
  source: Address;
  spool: (limitMb: number, pieces: AsyncIterable<Uint8Array>) => Promise<Spool>;
  signal: AbortSignal;
  progress: (fraction: number) => void;
};

/** The login with which the closed source is read. Made before the pause. */
export async function readerOf(from: Server, projectId: string): Promise<Address> {
  return { ...(await ensureDumpRole(from, projectId)), database: movingDatabaseOf(projectId) };
}

/** Everything, from the closed source. */
export async function fillCopy(options: CopyOptions): Promise<void> {
  // What an earlier move has left because of a lock. Here nothing holds one.
  await endReplication(options.from, options.projectId);
  await loadFrom(options, { users: () => copyUsers(options), until: 0.8 });
  await copySettings(options);
}

/** For a source that accepted no connections until now, because its account is suspended: upgrades have skipped it. */
export async function bringUpToDate({ from, source }: CopyOptions): Promise<void> {
  await putProjectSchema({ ...from.address, database: source.database }, from.projectSchema).catch(
    (error) => {
      if (!(error instanceof MigrationError && error.isNewer)) throw error;
    },
  );
}

/** Tables without rows, from the source while it is in use, as of an exported snapshot. */
export async function copySchema(options: CopyOptions, snapshot: string): Promise<void> {
  const source = { ...options.source, database: databaseOf(options.projectId) };
  const users = async () => {
    const writer = await openWriter(options, 'auth');
    // The row of the settings comes with the others.
    await writer
      .run(`truncate ${tables.join(', ')}`)
      .then(({ error }) => check(error))
      .finally(() => writer.close());
  };
  await loadFrom(
    { ...options, source },
    { more: ['--schema-only', `--snapshot=${snapshot}`], users, until: 0.3 },
  );
}

/** From the closed source, into a copy that has everything else. */
export async function copyLargeObjects(options: CopyOptions): Promise<void> {
  const more = ['--data-only', '--exclude-table-data=*.*'];
  await loadFrom(options, { more, users: async () => {}, isPart: true, until: 0.9 });
}

export function copySettings({ projectId, copyId, from, to }: CopyOptions): Promise<void> {
  return copyRoleSettings(
    { server: from, id: projectId, database: movingDatabaseOf(projectId) },
    { server: to, id: copyId },
  );
}

type Restoring = {
  users: () => Promise<void>;
  more?: string[];
  isPart?: boolean;
  /** The progress of the move at the end. */
  until: number;
};

async function loadFrom(
  options: CopyOptions,
  { users, more = [], isPart = false, until }: Restoring,
): Promise<void> {
  const { copyId, to, source, signal, limitMb, progress } = options;
  const pieces = await makePieces('custom', {
    address: source,
    sessionName: 'rowhouse move',
    signal,
    more,
    findNative: async () => null,
  });
  const spool = await options.spool(limitMb, pieces).catch((error) => {
    throw error instanceof DumpError ? errors.exportFailed(error.message, error) : error;
  });
  progress(until / 2);
  try {
    const report = await loadDump({
      server: to,
      signal,
      file: spool.file(),
      limits: { statementMs },
      users,
      isPart,
      project: { id: copyId, serverId: to.id, passwordVersion: 1, accountId: null },
      maxUnpackedBytes: ownUnpackedBytes,
      progress: (fraction) => progress((until / 2) * (1 + fraction)),
    });
    refuseLoss(report);
  } finally {
    await spool.close();
  }
}

const statementMs = 10 * 60_000;

/** Users first: the others refer to them. */
const tables = ['users', 'passwords', 'sessions', 'codes', 'attempts', 'places', 'settings'].map(
  (name) => `auth.${name}`,
);

/** A session in the copy, as the role that owns the project's tables or the users. */
export function openWriter(
  { to, copyId, signal }: Pick<CopyOptions, 'to' | 'copyId' | 'signal'>,
  loginAs?: 'auth',
): Promise<ImportSession> {
  const login = {
    id: copyId,
    serverId: to.id,
    passwordVersion: 1,
    accountId: null,
    ...(loginAs && { loginAs }),
  };
  return ImportSession.open(to, login, { statementMs }, signal);
}

/** Row by row as they are. An import checks users as if they came by the API; these are ours already. */
async function copyUsers(options: CopyOptions): Promise<void> {
  const reader = await openReader(options.source, 'rowhouse move');
  try {
    const writer = await openWriter(options, 'auth');
    try {
      check((await writer.run(`truncate ${tables.join(', ')}`)).error);
      for (const name of tables) await copyTable(reader, writer, name);
    } finally {
      writer.close();
    }
  } finally {
    reader.close();
  }
}

/** `name`: quoted. `columns`: quoted, in parentheses; in the copy of a child table they can have another order. */
export async function copyTable(
  reader: Session,
  writer: ImportSession,
  name: string,
  columns = '',
): Promise<void> {
  const rows = copyOut(reader, `copy ${name} ${columns} to stdout`);
  check((await writer.copy(`copy ${name} ${columns} from stdin`, rows)).error);
}

export function check(error: { message: string } | null): void {
  if (error) throw errors.importFailed(error.message);
}

/** An import goes on without what it cannot create. A move must not. */
function refuseLoss({ skipped }: ImportReport): void {
  const first = skipped.find(({ lost }) => lost);
  if (!first) return;
  throw errors.conflict(
    `The project cannot be moved without loss: ${first.entry}: ${first.reason}`,
    'Install what is missing on the other server, or change the object, then try again.',
  );
}
