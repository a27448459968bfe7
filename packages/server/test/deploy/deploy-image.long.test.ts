// Dockerfile without a container: the same files and the same commands in an empty folder, and then what the image runs, as
// a user without rights who cannot write to the program.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { createSelfSigned } from '../../src/tls/certificate.ts';
import { until } from '../support/helpers.ts';
import { freePort } from '../support/process.ts';
import { root } from '../support/toolchains.ts';

const dockerfile = readFileSync(path.join(root, 'Dockerfile'), 'utf8');
const [buildStage = '', finalStage = ''] = dockerfile.split(/^FROM .*$/m).slice(1);
const place = mkdtempSync(path.join(tmpdir(), 'rowhouse-image-'));
const image = path.join(place, 'rowhouse');
afterAll(() => rmSync(place, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));

/** As .dockerignore says: what Git has, without the tests. */
function listContext(): string[] {
  const files = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  return files
    .split('\n')
    .filter((file) => file !== '' && !/(^|\/)(test|dist|node_modules)\//.test(file))
    .filter((file) => existsSync(path.join(root, file)));
}

beforeAll(() => {
  chmodSync(place, 0o755);
  const folder = path.join(place, 'build');
  mkdirSync(folder);
  const context = listContext();
  const copy = (from: string, to: string) => {
    const found = context.filter((file) => file === from || file.startsWith(`${from}/`));
    expect(found, from).not.toEqual([]);
    for (const file of found) {
      const below = file === from ? path.basename(from) : path.relative(from, file);
      const target = path.join(folder, to, below);
      mkdirSync(path.dirname(target), { recursive: true });
      copyFileSync(path.join(root, file), target);
    }
  };
  for (const [, instruction, rest = ''] of buildStage.matchAll(/^(COPY|RUN) (.*)$/gm)) {
    const words = rest.split(' ');
    const target = words.at(-1) ?? '';
    if (instruction === 'COPY') for (const from of words.slice(0, -1)) copy(from, target);
    else execFileSync('bash', ['-c', rest.replaceAll('/image', image)], { cwd: folder, stdio: 'pipe' });
  }
  rmSync(folder, { recursive: true });
}, 900_000);

/** The environment of the image, on another port and with another data folder. */
function environmentOf(data: string, port: number): Record<string, string> {
  const lines = /^ENV ((?:.*\\\n)*.*)$/m.exec(finalStage)?.[1] ?? '';
  const given = [...lines.matchAll(/(\w+)=(\S+)/g)].map(([, name = '', value = '']) => [name, value]);
  return {
    ...Object.fromEntries(given),
    PATH: `${image}/node_modules/.bin:${process.env.PATH}`,
    HOME: '/nonexistent',
    ROWHOUSE_DATA: data,
    ROWHOUSE_PORT: String(port),
    ROWHOUSE_BACKUP_URL: 'off',
  };
}

const commandIn = (instruction: RegExp) =>
  (JSON.parse(instruction.exec(finalStage)?.[1] ?? '[]') as string[]).map((word) =>
    word.replace(/^\/rowhouse/, image),
  );

it.each(['HTTP', 'HTTPS'])(
  'the service runs as an ordinary user, with %s, and its health check agrees',
  async (scheme) => {
    const isRoot = process.getuid?.() === 0;
    const user = isRoot ? { uid: 65_534, gid: 65_534 } : {};
    const data = mkdtempSync(path.join(place, 'data-'));
    const port = await freePort();
    const env = environmentOf(data, port);
    if (scheme === 'HTTPS') {
      const { key, certificate } = createSelfSigned(['db.example.com']);
      writeFileSync(path.join(data, 'key.pem'), key);
      writeFileSync(path.join(data, 'cert.pem'), certificate);
      Object.assign(env, { ROWHOUSE_TLS_CERT: `${data}/cert.pem`, ROWHOUSE_TLS_KEY: `${data}/key.pem` });
    }
    if (isRoot) chownSync(data, 65_534, 65_534);
    const [program = '', ...args] = commandIn(/^ENTRYPOINT (.*)$/m);
    const [checker = '', ...check] = commandIn(/^ *CMD (.*)$/m);
    const health = () => spawnSync(checker, check, { env, cwd: data, ...user }).status;
    expect(health()).toBe(1);
    const child = spawn(program, args, { env, cwd: data, stdio: ['ignore', 'pipe', 'pipe'], ...user });
    onTestFinished(() => void child.kill('SIGKILL'));
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
    await until('it is ready', async () => /^ready$/m.test(output) || child.exitCode !== null, 120_000);
    expect(output).toMatch(/^ready$/m);
    expect(health()).toBe(0);
    if (scheme === 'HTTP') {
      const page = await fetch(`http://127.0.0.1:${port}/console/`);
      expect([page.status, page.headers.get('content-type')]).toEqual([
        200,
        expect.stringContaining('text/html'),
      ]);
      const key = /rh_acct_\w+/.exec(output)?.[0] ?? '';
      const cli = spawnSync('rowhouse', ['projects', 'create', 'Tea'], {
        env: { ...env, ROWHOUSE_URL: `http://127.0.0.1:${port}`, ROWHOUSE_API_KEY: key },
        encoding: 'utf8',
        cwd: data,
        ...user,
      });
      expect(cli.stderr + cli.stdout).toContain('rh_proj_');
    }
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
    expect(health()).toBe(1);
  },
);

it('the image has the pages that agents search', () => {
  const pages = readFileSync(path.join(image, 'packages/server/data/llms-full.txt'), 'utf8');
  expect(pages).toContain('<!-- docs/quickstart.md -->');
});

it('the image has nothing of the tests, the sources and the console’s libraries', () => {
  expect(readdirSync(path.join(image, 'packages')).sort()).toEqual(['api', 'cli', 'console', 'server']);
  const files = readdirSync(image, { recursive: true, encoding: 'utf8' });
  expect(files.filter((file) => /^packages\/.*(\.test\.|\.ts$)/.test(file))).toEqual([]);
  const libraries = readdirSync(path.join(image, 'node_modules'));
  for (const name of ['typescript', 'vitest', 'react', 'vite', '@biomejs'])
    expect(libraries).not.toContain(name);
  const size = Number(execFileSync('du', ['-sm', image], { encoding: 'utf8' }).split('\t')[0]);
  console.log(`The files of the image, without Node.js and Debian: ${size} MB`);
  expect(size).toBeLessThan(250);
});
