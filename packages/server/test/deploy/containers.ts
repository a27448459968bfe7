// Images and containers for tests, by podman. The images of registries that ours are based on are made here, under the same names, of
// Debian's archive and of programs that tests have anyway: no registry is needed.
import { execFile, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, inject } from 'vitest';
import { buildTimeoutMs, environment } from '../support/toolchains.ts';

/** Why there can be no containers here, said aloud; null if there can. `without`: what then stays untested. */
export function containersSkipReason(without: string, more: string[] = []): string | null {
  const programs = ['podman', 'runc', 'debootstrap', ...more];
  const missing = programs.filter((name) => spawnSync(name, ['--version']).error);
  const problems = missing.length > 0 ? `${missing.join(', ')} not installed` : null;
  const reason = process.getuid?.() !== 0 ? 'it needs root' : problems;
  if (reason) console.warn(`SKIPPED: ${reason}, so ${without}.`);
  return reason;
}

export async function run(program: string, args: string[], env = environment): Promise<string> {
  const options = { timeout: buildTimeoutMs, maxBuffer: 1 << 26, env };
  return (await promisify(execFile)(program, args, options)).stdout.trim();
}

export type Podman = (...args: string[]) => Promise<string>;

/** A folder for images, containers and volumes. podman refuses paths of more than 50 characters. */
export const makePlace = (): string => mkdtempSync(path.join(inject('sharedFolder'), 'c-'));

export const podmanFolders = (place: string) => [
  ...['--root', path.join(place, 'root'), '--runroot', path.join(place, 'run')],
  ...['--tmpdir', path.join(place, 'tmp')],
];

export function openPodman(place: string): Podman {
  const options = [...podmanFolders(place), '--runtime', 'runc', '--cgroup-manager', 'cgroupfs'];
  return (...args) => run('podman', [...options, ...args]);
}

/** podman leaves a mount behind. */
export function removePlace(place: string): void {
  spawnSync('umount', [path.join(place, 'root/overlay')]);
  rmSync(place, { recursive: true, force: true });
}

/** The mounts with which npm and pip work in a build: a network may have a certificate authority or a registry of its own. */
export async function mountsForBuilds(place: string): Promise<string[]> {
  const authorities = '/etc/authorities-of-the-machine.crt';
  const files = {
    '/root/.npmrc': `registry=${await run('npm', ['config', 'get', 'registry'])}\ncafile=${authorities}\n`,
    '/etc/pip.conf': `[global]\ncert = ${authorities}\n`,
  };
  const mounts = Object.entries(files).map(([target, content]) => {
    const file = path.join(place, path.basename(target));
    writeFileSync(file, content);
    return `${file}:${target}:ro`;
  });
  return [`/etc/ssl/certs/ca-certificates.crt:${authorities}:ro`, ...mounts];
}

/** Makes an image of the files that `fill` writes. */
export async function makeImage(
  podman: Podman,
  { place, name, changes = [] }: { place: string; name: string; changes?: string[] },
  fill: (files: string) => Promise<void>,
): Promise<void> {
  const files = path.join(place, 'base');
  const archive = path.join(place, 'base.tar');
  mkdirSync(files);
  try {
    await fill(files);
    await run('tar', ['-cf', archive, '-C', files, '.']);
    await podman('import', '--quiet', ...changes.flatMap((change) => ['--change', change]), archive, name);
  } finally {
    for (const made of [files, archive]) rmSync(made, { recursive: true, force: true });
  }
}

/** Makes an image with the parts of the official image of Node.js that Dockerfile uses: the same Debian, and this Node.js. */
export async function makeNodeImage(podman: Podman, place: string, name: string): Promise<void> {
  const [, release = ''] = /-(\w+)-slim$/.exec(name) ?? [];
  await makeImage(podman, { place, name }, async (files) => {
    await run('debootstrap', ['--variant=minbase', release, files]);
    const local = path.join(files, 'usr/local');
    cpSync(process.execPath, path.join(local, 'bin/node'));
    const npm = path.join(await run('npm', ['root', '--global']), 'npm');
    expect(existsSync(npm), npm).toBe(true);
    mkdirSync(path.join(local, 'lib/node_modules'), { recursive: true });
    cpSync(npm, path.join(local, 'lib/node_modules/npm'), { recursive: true, verbatimSymlinks: true });
    for (const program of ['npm', 'npx'])
      symlinkSync(`../lib/node_modules/npm/bin/${program}-cli.js`, path.join(local, 'bin', program));
    await run('chroot', [files, 'useradd', '--uid', '1000', '--create-home', 'node']);
  });
}
