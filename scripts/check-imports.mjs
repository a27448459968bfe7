// Enforces the direction of imports: a module may import only modules above it in the list. Run as a program, it checks the
// whole tree.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The modules (files or folders) of packages/server/src. Modules on one line do not import each other. The most specific
 * entry applies.
 */
const order = [
  ['backup-url', 'check', 'database-url', 'loopback', 'security-fixes'],
  [
    'errors',
    'config',
    'version',
    'memory-budget',
    'cache-size',
    'pause',
    'later',
    'account-turns',
    'in-flight',
    'timeout-signal',
    'stall-watch',
  ],
  ['account-slots'],
  ['log'],
  ['postgres'],
  ['control'],
  ['engine'],
  ['keys', 'tls'],
  ['postgres-proxy'],
  ['fleet'],
  ['adoption'],
  ['quotas', 'idempotency', 'jobs', 'audit'],
  ['projects', 'saved'],
  ['query/statement', 'query/json'],
  ['query/exchange'],
  ['query/sessions'],
  ['query/admission'],
  ['query/sharing'],
  ['query'],
  ['tables/request', 'tables/catalog'],
  ['tables/sql'],
  ['tables/write', 'tables/import'],
  ['dumps/read'],
  ['tables', 'users', 'dumps'],
  ['dumps/import'],
  ['branches'],
  ['moves'],
  ['backups/storage'],
  ['backups'],
  ['backups/restore'],
  ['people'],
  ['accounts', 'rotation'],
  ['server-work'],
  ['background'],
  ['metrics'],
  ['mcp', 'openapi'],
  ['http'],
  ['http/console'],
  ['service', 'workers'],
  ['app'],
  ['doctor-security-fixes'],
  ['doctor-huge-pages', 'doctor-projects', 'doctor-servers'],
  ['doctor', 'master-key', 'restore', 'adopt', 'health', 'mcp-stdio'],
  ['start-output'],
  ['main'],
];
const levels = new Map(order.flatMap((modules, level) => modules.map((module) => [module, level])));

/** Packages of ours that a package may import. */
const api = ['@rowhouse/api', '@rowhouse/api/settings'];
const statements = '@rowhouse/api/statements';
const packages = {
  api: [],
  server: api,
  cli: [...api, statements],
  client: [],
  console: ['@rowhouse/api', statements],
};
const drivers = ['pg', 'pg-protocol', 'pg-cursor'];

/** The problems of one file, given its path from the root and its text. */
export function problemsOf(file, text) {
  const [, name, area] = /^packages\/([^/]+)\/(src|test)\//.exec(file) ?? [];
  if (!name || area === 'test' || file.endsWith('.test.ts')) return [];
  const problems = [];
  // A value of the API package would bring its schemas and their library into the page.
  if (name === 'console' && /import (?!type )[^;]*from '@rowhouse\/api'/.test(text))
    problems.push('the console may import only types from @rowhouse/api');
  for (const [, from] of text.matchAll(/(?<![.\w])(?:from|import)\s*\(?\s*'([^']+)'/g)) {
    if (from.startsWith('.')) {
      if (name === 'server') problems.push(...upward(file, from));
      if (path.posix.join(path.posix.dirname(file), from).split('/')[1] !== name)
        problems.push(`${from} leaves the package`);
    } else if (name === 'client') {
      problems.push(`the client must run everywhere and may not import anything (${from})`);
    } else if (/^(@rowhouse\/|rowhouse)/.test(from) && !packages[name]?.includes(from)) {
      problems.push(`${name} may not import ${from}`);
    } else if (drivers.includes(from) && !file.startsWith('packages/server/src/postgres/')) {
      problems.push(`only postgres/ may import a driver (${from})`);
    }
  }
  return problems.map((problem) => `${file}: ${problem}`);
}

function upward(file, from) {
  const importing = moduleOf(file);
  const imported = moduleOf(path.posix.join(path.posix.dirname(file), from));
  for (const module of [importing, imported]) {
    if (!levels.has(module)) return [`${module} is not in the import order (scripts/check-imports.mjs)`];
  }
  if (importing === imported || levels.get(imported) < levels.get(importing)) return [];
  return [`${importing} may not import ${imported}`];
}

/** The most specific entry of the order: the file, its folder, or the folder around that. A sub-folder must be listed. */
function moduleOf(file) {
  const [outer, ...rest] = file.replace(/\.ts$/, '').split('/').slice(3);
  const inner = `${outer}/${rest[0]}`;
  return rest.length > 1 || levels.has(inner) ? inner : outer;
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
