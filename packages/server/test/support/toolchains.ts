// Programs of other languages that tests run: which of them are here, and the environment they run in.
import { execFile, spawnSync } from 'node:child_process';
import { accessSync, constants, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { homedir, tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

export const root = path.resolve(import.meta.dirname, '../../../..');

/** The folders of examples/, each with a README.md. */
export const examples = readdirSync(path.join(root, 'examples'), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);

/** Compiling for the first time, with downloads, on a small and busy machine. */
export const buildTimeoutMs = 900_000;

type Program = { name: string; args?: string[]; oldest: string };

/** By folder of examples/. */
const programs: Record<string, Program[]> = {
  curl: [
    { name: 'curl', oldest: '7.0' },
    { name: 'openssl', args: ['version'], oldest: '1.1' },
  ],
  go: [{ name: 'go', args: ['version'], oldest: '1.19' }],
  python: [{ name: 'python3', oldest: '3.9' }],
  rust: [{ name: 'cargo', oldest: '1.63' }],
  typescript: [{ name: 'node', oldest: '20.19' }],
};

export const environment = makeEnvironment();

/** Without a network, pip would try for minutes. */
export const briefly = ['--retries', '1', '--timeout', '20'];

/** The environment with a Python in this folder that has our client. null: there can be none here, which a warning reports. */
export async function pythonWithClient(folder: string, without: string): Promise<NodeJS.ProcessEnv | null> {
  if (skipReason('python', without)) return null;
  const run = (program: string, args: string[]) =>
    promisify(execFile)(program, args, { env: environment, timeout: buildTimeoutMs });
  const client = path.join(root, 'clients/python');
  const settings = readFileSync(path.join(client, 'pyproject.toml'), 'utf8');
  const needs = ['requires', 'dependencies'].flatMap((name) => {
    const [, list] = new RegExp(`^${name} = (\\[.*\\])$`, 'm').exec(settings) ?? [];
    if (!list) throw new Error(`${client}/pyproject.toml has no "${name}" on one line.`);
    return JSON.parse(list) as string[];
  });
  const bin = path.join(folder, 'bin');
  const install = (...args: string[]) =>
    run(path.join(bin, 'pip'), ['install', '--quiet', ...briefly, ...args]);
  try {
    await run('python3', ['-m', 'venv', folder]);
    await install(...needs);
  } catch (error) {
    console.warn(`SKIPPED: ${lastLine(error)}, so ${without}.`);
    return null;
  }
  // A package that cannot be installed is a defect.
  await install('--no-build-isolation', client);
  return { ...environment, PATH: `${bin}:${environment.PATH}` };
}

/** The last line that a program wrote before it failed. npm ends with the name of a log: of it, the code. */
export function lastLine(error: unknown): string {
  const { stderr, message } = error as Error & { stderr?: string };
  const text = (stderr || message).trim();
  return /^npm error code .*$/m.exec(text)?.[0] ?? text.split('\n').at(-1) ?? '';
}

/** Reports in a warning why a language cannot be tried here, and returns it; null if it can. `without`: what then stays untested. */
export function skipReason(language: string, without: string): string | null {
  const wanted = programs[language];
  if (!wanted) throw new Error(`toolchains.ts does not say which programs examples/${language} needs.`);
  const reason = wanted.map(problemOf).find((problem) => problem !== null) ?? null;
  if (reason) console.warn(`SKIPPED: ${reason}, so ${without}.`);
  return reason;
}

function problemOf({ name, args = ['--version'], oldest }: Program): string | null {
  const found = spawnSync(name, args, { env: environment, encoding: 'utf8' });
  if (found.status !== 0) return `${name} is not installed`;
  const version = /\d+\.\d+/.exec(found.stdout)?.[0] ?? '0.0';
  if (isOlder(version, oldest)) return `${name} is ${version} and would have to be ${oldest}`;
  return name === 'cargo' && isOlder(version, '1.68') ? cratesProblem(version) : null;
}

/** Older ones know the registry only as a git repository on another host, which not every network reaches. */
function cratesProblem(version: string): string | null {
  const cwd = path.join(root, 'examples/rust');
  const fetched = spawnSync('cargo', ['fetch'], {
    cwd,
    env: environment,
    timeout: buildTimeoutMs,
  });
  return fetched.status === 0 ? null : `cargo ${version} could not download crates here (1.68 could)`;
}

function isOlder(version: string, than: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const [thanMajor = 0, thanMinor = 0] = than.split('.').map(Number);
  return major < thanMajor || (major === thanMajor && minor < thanMinor);
}

function makeEnvironment(): NodeJS.ProcessEnv {
  const ours = Object.entries(process.env).filter(([name]) => !name.startsWith('ROWHOUSE_'));
  const direct = `127.0.0.1,${process.env.no_proxy ?? process.env.NO_PROXY ?? ''}`;
  return {
    ...Object.fromEntries(ours),
    ...homeForTools(),
    GOFLAGS: '-mod=mod',
    GOTOOLCHAIN: 'local',
    // What is built stays outside of the examples, and is there at the next run.
    CARGO_TARGET_DIR: path.join(root, 'node_modules/.cache/rowhouse-examples'),
    PYTHONDONTWRITEBYTECODE: '1',
    no_proxy: direct,
    NO_PROXY: direct,
  };
}

/** Go and cargo write into the home folder; where they cannot, into a temporary one. */
function homeForTools(): NodeJS.ProcessEnv {
  try {
    accessSync(homedir(), constants.W_OK);
    return {};
  } catch {
    // Each user has one: that of another could not be written either.
    const home = path.join(tmpdir(), `rowhouse-home-${userInfo().uid}`);
    mkdirSync(home, { recursive: true, mode: 0o700 });
    if (statSync(home).uid !== userInfo().uid) throw new Error(`${home} belongs to another user.`);
    return {
      HOME: home,
      GOCACHE: path.join(home, 'cache'),
      GOPATH: home,
      CARGO_HOME: path.join(home, 'cargo'),
    };
  }
}
