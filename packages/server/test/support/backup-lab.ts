// What the tests of backups share: a PostgreSQL of their own, a repository in a folder, and a recovery of the whole server
// with the embedded PostgreSQL.
import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';
import {
  type BackupDescription,
  openRepository,
  type Repository,
} from '../../src/backups/repository/repository.ts';
import { layOut } from '../../src/backups/restore/combine.ts';
import { openFolder } from '../../src/backups/storage/folder.ts';
import { listSegments, readSegment } from '../../src/backups/wal/wal-archive.ts';
import { type Database, openDatabase } from '../../src/postgres/admin/database.ts';
import { sql } from '../../src/postgres/sql.ts';
import { type Embedded, startEmbedded } from '../../src/servers/embedded/embedded.ts';
import { findRunAs } from '../../src/servers/embedded/run-as.ts';

export type Lab = { folder: string; masterKey: Buffer; engine: Embedded; database: Database };

export function newFolder(name: string): string {
  const folder = mkdtempSync(path.join(tmpdir(), `rowhouse-${name}-`));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));
  return folder;
}

/** A PostgreSQL that is gone after the test. */
export async function startLab(
  more: Record<string, string> = {},
  at?: { folder: string; masterKey: Buffer },
): Promise<Lab> {
  const { folder, masterKey } = at ?? { folder: newFolder('lab'), masterKey: randomBytes(32) };
  const engine = await startEmbedded({
    dataFolder: folder,
    masterKey,
    connections: 20,
    reserveBytes: 0,
    say: () => {},
    onEvent: () => {},
    more: { summarize_wal: 'on', ...more },
  });
  const database = openDatabase(engine.address, { max: 4 });
  onTestFinished(async () => {
    await database.end();
    await engine.stop();
  });
  return { folder, masterKey, engine, database };
}

/** What `rowhouse doctor` says about the backups of a lab. The service in this process goes on meanwhile. */
export async function examineBackups(
  lab: Lab,
  repository: string,
  controlDatabase: string,
  wanted = 'backups',
) {
  const env = {
    PATH: process.env.PATH,
    ROWHOUSE_DATA: lab.folder,
    ROWHOUSE_BACKUP_URL: `file:${repository}`,
    ROWHOUSE_MASTER_KEY: lab.masterKey.toString('hex'),
    ROWHOUSE_CONTROL_DATABASE: controlDatabase,
  };
  const program = path.resolve(import.meta.dirname, '../../dist/programs/doctor.js');
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env, encoding: 'utf8' });
  const checks = JSON.parse(stdout);
  return (checks as { check: string; state: string; found: string; todo?: string }[]).find(
    ({ check }) => check === wanted,
  );
}

export async function repositoryOf({ database, masterKey }: Lab, folder: string): Promise<Repository> {
  const [row] = await database.query<{ id: string }>(
    sql`select system_identifier::text as id from pg_control_system()`,
  );
  return openRepository(openFolder(folder, 0), masterKey, row?.id ?? '');
}

/** Lays out the chain with all stored WAL after it and lets PostgreSQL replay it to the end. */
export async function recover(
  lab: Pick<Lab, 'masterKey'>,
  repository: Repository,
  chain: readonly BackupDescription[],
): Promise<Lab> {
  const folder = newFolder('recovered');
  const cluster = path.join(folder, 'postgres');
  mkdirSync(cluster, { mode: 0o700 });
  await layOut(repository, chain, cluster);
  for (const { name } of await listSegments(repository, 1)) {
    const bytes = await readSegment(repository, name, 16 * 1024 * 1024);
    if (bytes) writeFileSync(path.join(cluster, 'pg_wal', name), bytes, { mode: 0o600 });
  }
  const runAs = findRunAs(cluster);
  if (runAs) execFileSync('chown', ['-R', `${runAs.uid}:${runAs.gid}`, cluster]);
  return startLab({ summarize_wal: 'off' }, { folder, masterKey: lab.masterKey });
}
