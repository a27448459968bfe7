// Compiles another version of the repository, once, into .cache. It shares the installed packages if their versions have
// not changed. node scripts/build-version.mjs <commit> prints the path of its program.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Compiling for the first time, with downloads, on a small and busy machine. */
const timeout = 900_000;

/** Returns the path of the compiled program. */
export function buildVersion(commit) {
  const folder = path.join(root, '.cache', `version-${commit}`);
  const complete = path.join(folder, 'complete');
  if (!existsSync(complete)) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    build(commit, folder);
    writeFileSync(complete, '');
  }
  return path.join(folder, 'packages/server/dist/main.js');
}

function build(commit, folder) {
  const options = { cwd: folder, timeout, maxBuffer: 2 ** 30, stdio: ['pipe', 'pipe', 'inherit'] };
  const files = ['package.json', 'package-lock.json', 'tsconfig.base.json', 'packages'];
  const archive = execFileSync('git', ['archive', commit, ...files], { ...options, cwd: root });
  execFileSync('tar', ['-x'], { ...options, input: archive });
  if (installedIn(folder) === installedIn(root)) {
    // All other packages are found in the folder above, that of the checkout.
    const scope = path.join(folder, 'node_modules/@rowhouse');
    mkdirSync(scope, { recursive: true });
    for (const name of ['api', 'server']) symlinkSync(`../../packages/${name}`, path.join(scope, name));
  } else execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], options);
  const typescript = path.dirname(createRequire(import.meta.url).resolve('typescript/package.json'));
  const tsc = path.join(typescript, 'bin/tsc');
  execFileSync(process.execPath, [tsc, '-b', 'packages/api', 'packages/server'], options);
}

/** The packages in its lock file, without those of the repository itself. */
function installedIn(at) {
  const { packages } = JSON.parse(readFileSync(path.join(at, 'package-lock.json'), 'utf8'));
  return JSON.stringify(Object.entries(packages).filter(([name]) => name.includes('node_modules/')));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [commit] = process.argv.slice(2);
  if (!commit) throw new Error('Name a commit: node scripts/build-version.mjs <commit>');
  console.log(buildVersion(commit));
}
