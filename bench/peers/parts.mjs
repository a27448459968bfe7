// What the adapters of the peers share: installing what their package.json names, starting a program and waiting
// until it answers, and asking it once. An adapter (peer.mjs) exports `about`, `install()`, `versions()` and
// `start({ databaseUrl, folder, port })`, which gives { pid, requests, stop() }. `requests` has one for each workload
// that the peer can do: { method, path, headers, body }, in which {id} is a random row, {n} a number that is never
// used twice and {user} one of the users who are there already.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** Every e-mail and password in the benchmarks. */
export const password = 'correct horse battery 1';
export const emailOf = (n) => `user${n}@example.com`;
export const users = 16;

/** No install script runs unless it is asked for by name: they download programs, and most are not needed. */
export function installPackages(folder, { rebuild = [] } = {}) {
  if (isInstalled(folder)) return;
  console.log(`Installing ${path.basename(folder)} …`);
  const options = { cwd: folder, encoding: 'utf8', shell: process.platform === 'win32' };
  const steps = [['install', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']];
  for (const name of rebuild) steps.push(['rebuild', name, '--loglevel=error']);
  for (const args of steps) {
    const { status, stderr } = spawnSync('npm', args, options);
    if (status !== 0) throw new Error(`npm ${args[0]} failed: ${reasonOf(stderr)}`);
  }
  writeFileSync(markerOf(folder), stateOf(folder));
}

function isInstalled(folder) {
  const marker = markerOf(folder);
  return existsSync(marker) && readFileSync(marker, 'utf8') === stateOf(folder);
}

function markerOf(folder) {
  return path.join(folder, 'node_modules', '.rowhouse-installed');
}

function stateOf(folder) {
  const manifest = readFileSync(path.join(folder, 'package.json'));
  return `${createHash('sha256').update(manifest).digest('hex')} ${process.platform} ${process.arch}\n`;
}

export function versionsOf(folder, ...names) {
  return names.map((name) => {
    const file = path.join(folder, 'node_modules', name, 'package.json');
    return `${name} ${JSON.parse(readFileSync(file, 'utf8')).version}`;
  });
}

/** A Go program, from the module proxy into a folder of its own; the path of the program. */
export function goProgram(folder, module, version) {
  const made = path.join(folder, '.cache', version);
  const program = path.join(made, path.basename(module));
  return {
    program,
    install() {
      if (existsSync(program)) return;
      console.log(`Building ${path.basename(folder)} …`);
      const env = { ...process.env, CGO_ENABLED: '0', GOBIN: made };
      const { error, status, stderr } = spawnSync('go', ['install', `${module}@${version}`], {
        env,
        encoding: 'utf8',
      });
      if (error) throw new Error('Go is not on this machine');
      if (status !== 0) throw new Error(`it could not be built: ${reasonOf(stderr)}`);
    },
  };
}

/** The last line that says something, without addresses. */
export function reasonOf(output) {
  const lines = output.split('\n').filter((line) => line.trim() && !/complete log|npm warn/i.test(line));
  const told = lines
    .slice(-2)
    .join(' ')
    .replaceAll(/https?:\/\/\S+/g, '')
    .replaceAll(/\s+/g, ' ');
  return told.replaceAll('|', '/').trim().slice(0, 300);
}

/** Starts `command` and waits until `probe` answers. What it prints goes to a file in `folder`. */
export async function startProgram({ command, args, env = {}, cwd, folder, probe, waitMs = 90_000 }) {
  const log = path.join(folder, 'program.log');
  const out = openSync(log, 'a');
  const child = spawn(command, args, {
    cwd: cwd ?? folder,
    env: { ...process.env, NODE_ENV: 'production', DO_NOT_TRACK: '1', ...env },
    stdio: ['ignore', out, out],
  });
  let ended = null;
  child.once('error', (error) => {
    ended = error.message;
  });
  child.once('exit', (code) => {
    ended ??= `it ended with ${code}`;
  });
  const end = performance.now() + waitMs;
  for (;;) {
    const told = () => reasonOf(readFileSync(log, 'utf8'));
    if (ended !== null) throw new Error(`${ended}: ${told()}`);
    if (performance.now() > end) {
      child.kill('SIGKILL');
      throw new Error(`it does not answer: ${told()}`);
    }
    try {
      const response = await fetch(probe, { signal: AbortSignal.timeout(5_000) });
      if (response.status < 500) break;
    } catch {
      // Not yet.
    }
    await sleep(200);
  }
  return {
    pid: child.pid,
    async stop() {
      if (ended !== null) return;
      const over = once(child, 'exit');
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await over;
      clearTimeout(timer);
    },
  };
}

/** One request, answered with 2xx; its body as text. */
export async function ask(url, { method = 'GET', path: target, headers = {}, body }) {
  const response = await fetch(url + target, {
    method,
    headers: { ...(body && { 'content-type': 'application/json' }), ...headers },
    ...(body && { body }),
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`${method} ${target}: ${response.status} ${answer.slice(0, 300)}`);
  return answer;
}

/** One or more statements by psql, one after another. */
export function sql(databaseUrl, ...statements) {
  const args = ['-X', '-q', '-v', 'ON_ERROR_STOP=1', databaseUrl];
  execFileSync('psql', args, {
    input: statements.map((text) => `${text};\n`).join(''),
    stdio: ['pipe', 'ignore', 'pipe'],
  });
}
