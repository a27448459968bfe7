// The files of a backup for one project alone. All other databases are left out: files of the right size without content
// take their place. PostgreSQL replays their WAL too, but never reads a page of them that the WAL does not bring whole.
import { lchown, mkdir, open, readdir } from 'node:fs/promises';
import path from 'node:path';
import type { RunAs } from '../../servers/embedded/run-as.ts';
import { type BackupDescription, getObject, names, type Repository } from '../repository/repository.ts';
import { layOut } from './combine.ts';

type Request = {
  repository: Repository;
  /** The full backup first. */
  chain: readonly BackupDescription[];
  /** Oids of databases. null: all. */
  keep: ReadonlySet<number> | null;
  folder: string;
  runAs: RunAs | null;
  signal: AbortSignal;
  progress: (bytes: number) => void;
};

/** Smaller ones PostgreSQL extends itself, at little cost. With 3,000 projects this saves millions of files. */
const sparseFromBytes = 1024 * 1024;
const maxLineChars = 16 * 1024;

export async function layOutFor(request: Request): Promise<void> {
  const { repository, chain, keep, folder, runAs, signal, progress } = request;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await layOut(repository, chain, folder, { wanted: (part) => isKept(part, keep), signal, progress });
  if (keep) await leaveOut(repository, chain, keep, folder, signal);
  if (runAs) await giveTo(runAs, folder);
}

export function isKept(part: string, keep: ReadonlySet<number> | null): boolean {
  const [, oid] = /^db-(\d+)\.tar$/.exec(part) ?? [];
  return oid === undefined || keep === null || keep.has(Number(oid));
}

async function leaveOut(
  repository: Repository,
  chain: readonly BackupDescription[],
  keep: ReadonlySet<number>,
  folder: string,
  signal: AbortSignal,
): Promise<void> {
  const sizes = new Map<string, number>();
  let present = new Set<string>();
  for (const backup of chain) {
    present = new Set();
    for await (const { file, oid, isIncremental, bytes } of listFiles(repository, backup, signal)) {
      if (keep.has(oid)) continue;
      present.add(file);
      // The length of a file is not that of its increment. It has grown since, if at all, by little.
      if (!isIncremental) sizes.set(file, bytes);
    }
  }
  const folders = new Set([...present].map((file) => path.posix.dirname(file)));
  for (const name of folders) await mkdir(path.join(folder, name), { recursive: true, mode: 0o700 });
  for (const file of present) {
    const bytes = sizes.get(file) ?? 0;
    if (bytes < sparseFromBytes) continue;
    const handle = await open(path.join(folder, file), 'w', 0o600);
    await handle.truncate(bytes).finally(() => handle.close());
  }
}

/** The files of databases in the manifest. It is read line by line: of thousands of projects it has hundreds of megabytes. */
async function* listFiles(repository: Repository, backup: BackupDescription, signal: AbortSignal) {
  const pattern = /^\{ "Path": "(base\/(\d+)\/)(INCREMENTAL\.)?([\w.]+)", "Size": (\d+),/;
  let rest = '';
  const name = names.part(repository, backup.id, backup.manifest.name);
  for await (const piece of getObject(repository, name, signal)) {
    const lines = (rest + piece.toString('latin1')).split('\n');
    rest = lines.pop() ?? '';
    if (rest.length > maxLineChars) throw new Error(`${name} is not a manifest.`);
    for (const line of lines) {
      const [, place, oid, incremental, file, bytes] = pattern.exec(line) ?? [];
      if (place === undefined) continue;
      const isIncremental = incremental !== undefined;
      yield { file: `${place}${file}`, oid: Number(oid), isIncremental, bytes: Number(bytes) };
    }
  }
}

async function giveTo({ uid, gid }: RunAs, folder: string): Promise<void> {
  await lchown(folder, uid, gid);
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true }))
    await lchown(path.join(entry.parentPath, entry.name), uid, gid);
}
