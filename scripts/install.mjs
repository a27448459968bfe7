// Runs npm with the given arguments in a folder, and says how far it is: a line that changes on a terminal, otherwise a line
// from time to time. A process of its own, so that set-up can wait for it without an event loop.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const isTerminal = process.stdout.isTTY === true;
const [folder, ...args] = process.argv.slice(2);
const startedAt = Date.now();
const { packages } = JSON.parse(readFileSync(path.join(folder, 'package-lock.json'), 'utf8'));
const wanted = Object.entries(packages).filter(
  ([name, { optional, link }]) => /^node_modules\/(@[^/]+\/)?[^/]+$/.test(name) && !optional && !link,
).length;

const npm = process.env.npm_execpath;
const child = spawn(npm ? process.execPath : 'npm', [...(npm ? [npm] : []), ...args], {
  cwd: folder,
  stdio: ['ignore', 'ignore', 'inherit'],
  shell: !npm && process.platform === 'win32',
});
const timer = setInterval(report, isTerminal ? 500 : 10_000);
child.once('error', (error) => finish(`npm could not be started: ${error.message}`, 1));
child.once('exit', (status) => finish('', status ?? 1));
// npm gets Ctrl-C too; this process ends with it.
process.on('SIGINT', () => {});

function report() {
  const found = Math.min(installed(), wanted);
  const seconds = Math.round((Date.now() - startedAt) / 1000);
  const line = `  ${found} of about ${wanted} packages, ${seconds} s`;
  process.stdout.write(isTerminal ? `\r\x1b[K${line}` : `${line}\n`);
}

function finish(problem, status) {
  clearInterval(timer);
  if (isTerminal) process.stdout.write('\r\x1b[K');
  if (problem) console.error(problem);
  process.exitCode = status;
}

/** npm makes all folders first. A package.json is among the files of a package that has arrived. */
function installed() {
  const modules = path.join(folder, 'node_modules');
  return namesIn(modules)
    .flatMap((name) =>
      name.startsWith('@') ? namesIn(path.join(modules, name)).map((inner) => `${name}/${inner}`) : [name],
    )
    .filter((name) => existsSync(path.join(modules, name, 'package.json'))).length;
}

/** Folders come and go while npm works. */
function namesIn(place) {
  try {
    return readdirSync(place).filter((name) => !name.startsWith('.'));
  } catch {
    return [];
  }
}
