// Packs the published packages as npm would publish them, and checks the tarballs before they are published.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { writeLlmsFull } from './llms-full.mjs';

const needed = ['package.json', 'README.md', 'LICENSE'];
const allowed =
  /^(bin\/[\w-]+\.mjs|dist\/(.+\.([cm]?js|[cm]?js\.map|d\.[cm]?ts)|cjs\/package\.json)|migrations\/.+\.sql|data\/.+\.txt|console\/.+)$/;

/** The packages that are published, each after those that it depends on: the order in which npm must get them. */
export function publishedPackages(root) {
  const found = readdirSync(path.join(root, 'packages')).map((name) => {
    const text = readFileSync(path.join(root, 'packages', name, 'package.json'), 'utf8');
    return { folder: `packages/${name}`, text, manifest: JSON.parse(text) };
  });
  const ordered = new Set();
  const add = (entry) => {
    for (const name of Object.keys(entry.manifest.dependencies ?? {}))
      found.filter(({ manifest }) => manifest.name === name).forEach(add);
    ordered.add(entry);
  };
  found.filter(({ manifest }) => !manifest.private).forEach(add);
  return [...ordered];
}

export function tarballName(name, version) {
  return `${name.replace('@', '').replace('/', '-')}-${version}.tgz`;
}

/** Packs into `destination`, which it empties first. */
export function pack(root, folders, destination) {
  rmSync(destination, { recursive: true, force: true });
  mkdirSync(destination, { recursive: true });
  const console = copyConsole(root);
  // A release changes pages after the set-up.
  writeLlmsFull(root);
  const args = [
    'pack',
    '--loglevel=error',
    '--pack-destination',
    destination,
    ...folders.map((f) => `./${f}`),
  ];
  const npm = process.env.npm_execpath;
  const result = npm
    ? spawnSync(process.execPath, [npm, ...args], { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
    : spawnSync('npm', args, {
        cwd: root,
        stdio: ['ignore', 'ignore', 'inherit'],
        shell: process.platform === 'win32',
      });
  // In a clone, the service takes the console from its own package.
  rmSync(console, { recursive: true, force: true });
  if (result.status !== 0) throw new Error('npm pack failed: see above.');
}

/** The built console becomes part of the server's package. Returns the folder of the copy. */
function copyConsole(root) {
  const copy = path.join(root, 'packages', 'server', 'console');
  const source = path.join(root, 'packages', 'console');
  rmSync(copy, { recursive: true, force: true });
  if (!existsSync(source)) return copy;
  if (!existsSync(path.join(source, 'dist', 'index.html'))) throw new Error('The console is not built.');
  // Not the mark of the build.
  const filter = (file) => !path.basename(file).startsWith('.');
  cpSync(path.join(source, 'dist'), copy, { recursive: true, filter });
  return copy;
}

/** `packages`: of publishedPackages. Throws if a tarball is not as it should be. */
export async function packAndCheck(root, packages, versions, destination) {
  pack(
    root,
    packages.map(({ folder }) => folder),
    destination,
  );
  const problems = [];
  for (const { manifest } of packages) {
    const file = path.join(destination, tarballName(manifest.name, versions[manifest.name]));
    problems.push(...(await problemsOfTarball(file, manifest.name, versions)));
  }
  if (problems.length > 0)
    throw new Error(`The tarballs are not as they should be:\n- ${problems.join('\n- ')}`);
}

/** `versions`: the version of each Rowhouse package by name, as it must be packed and depended on. */
export async function problemsOfTarball(file, name, versions) {
  const files = tar(['-tzf', path.basename(file)], path.dirname(file))
    .trim()
    .split(/\r?\n/)
    .map((entry) => entry.replace(/^package\//, ''));
  const manifest = JSON.parse(
    tar(['-xzOf', path.basename(file), 'package/package.json'], path.dirname(file)),
  );
  const { messages, pkg = manifest } = await publint({
    strict: true,
    pack: { tarball: new Uint8Array(readFileSync(file)).buffer },
  });
  return [
    ...problemsOfFiles(files, manifest),
    ...problemsOfVersions(manifest, name, versions),
    ...messages.map((message) => formatMessage(message, pkg, { color: false })),
  ].map((problem) => `${path.basename(file)}: ${problem}`);
}

export function problemsOfFiles(files, manifest) {
  const targets = [manifest.exports ?? {}, manifest.bin ?? {}]
    .flatMap((target) => JSON.stringify(target).match(/[^":]+\.\w+(?="[,}])/g) ?? [])
    .map((target) => target.replace(/^\.\//, ''));
  const missing = [...new Set([...needed, ...targets])].filter((file) => !files.includes(file));
  const unwanted = files.filter(
    (file) => !needed.includes(file) && (!allowed.test(file) || file.includes('.test.')),
  );
  return [
    ...missing.map((file) => `${file} is missing`),
    ...unwanted.map((file) => `${file} does not belong in it`),
  ];
}

export function problemsOfVersions(manifest, name, versions) {
  const problems = [];
  if (manifest.name !== name || manifest.version !== versions[name])
    problems.push(`it is ${manifest.name} ${manifest.version} instead of ${name} ${versions[name]}`);
  for (const [other, version] of Object.entries(manifest.dependencies ?? {}))
    if (versions[other] && version !== versions[other])
      problems.push(`it depends on ${other} ${version} instead of ${versions[other]}`);
  return problems;
}

/** Runs in the folder of the file: GNU tar takes the part of a Windows path before the colon for a host name. */
function tar(args, cwd) {
  const { status, stdout, stderr } = spawnSync('tar', args, { cwd, encoding: 'utf8', maxBuffer: 64 << 20 });
  if (status !== 0) throw new Error(`tar ${args.join(' ')} failed: ${stderr}`);
  return stdout;
}
