// Holds the direction of imports: a room may use only rooms before it in the list. Run as a program it checks the tree.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Inside packages/server/src. Rooms on one line do not use each other. The most specific entry counts. */
const order = [
  ['errors', 'config', 'version', 'memory-budget'],
  ['log'],
  ['postgres'],
  ['control'],
  ['engine'],
  ['keys'],
  ['quotas', 'idempotency'],
  ['projects'],
  ['query/statement', 'query/json'],
  ['query/exchange'],
  ['query/sessions'],
  ['query/admission'],
  ['query/sharing'],
  ['query'],
  ['tables/request', 'tables/catalog'],
  ['tables/sql'],
  ['tables/write', 'tables/import'],
  ['tables', 'users'],
  ['accounts', 'background'],
  ['metrics'],
  ['http'],
  ['service', 'workers'],
  ['app'],
  ['doctor'],
  ['main'],
];
const levels = new Map(order.flatMap((rooms, level) => rooms.map((room) => [room, level])));

/** Packages of ours that a package may import. */
const api = ['@rowhouse/api', '@rowhouse/api/settings'];
const packages = { api: [], server: api, cli: api, client: [] };
const drivers = ['pg', 'pg-protocol', 'pg-cursor'];

/** What is wrong with one file, given its path from the root and its text. */
export function problemsOf(file, text) {
  const [, name, area] = /^packages\/([^/]+)\/(src|test)\//.exec(file) ?? [];
  if (!name || area === 'test' || file.endsWith('.test.ts')) return [];
  const problems = [];
  for (const [, from] of text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)) {
    if (from.startsWith('.')) {
      if (name === 'server') problems.push(...upward(file, from));
      if (path.posix.join(path.posix.dirname(file), from).split('/')[1] !== name)
        problems.push(`${from} leaves the package`);
    } else if (name === 'client') {
      problems.push(`client runs everywhere and has no dependencies (${from})`);
    } else if (/^(@rowhouse\/|rowhouse)/.test(from) && !packages[name]?.includes(from)) {
      problems.push(`${name} may not import ${from}`);
    } else if (drivers.includes(from) && !file.startsWith('packages/server/src/postgres/')) {
      problems.push(`only postgres/ imports a driver (${from})`);
    }
  }
  return problems.map((problem) => `${file}: ${problem}`);
}

function upward(file, from) {
  const here = roomOf(file);
  const there = roomOf(path.posix.join(path.posix.dirname(file), from));
  if (!levels.has(here)) return [`the room ${here} has no place in the order`];
  if (here === there || !levels.has(there))
    return levels.has(there) ? [] : [`the room ${there} has no place in the order`];
  return levels.get(there) < levels.get(here) ? [] : [`${here} may not import ${there}`];
}

/** A file, its folder, or the room around that: whichever the order names first. A folder has to be named. */
function roomOf(file) {
  const [room, ...rest] = file.replace(/\.ts$/, '').split('/').slice(3);
  const inner = `${room}/${rest[0]}`;
  return rest.length > 1 || levels.has(inner) ? inner : room;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL('..', import.meta.url));
  const files = readdirSync(path.join(root, 'packages'), { recursive: true })
    .map((file) => `packages/${file.split(path.sep).join('/')}`)
    .filter((file) => /^packages\/[^/]+\/src\/.*\.tsx?$/.test(file));
  const problems = files.flatMap((file) => problemsOf(file, readFileSync(path.join(root, file), 'utf8')));
  for (const problem of problems) console.error(problem);
  console.log(`imports: ${files.length} files, ${problems.length} problems`);
  process.exit(problems.length > 0 || files.length === 0 ? 1 : 0);
}
