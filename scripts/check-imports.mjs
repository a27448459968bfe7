// Enforces the direction of imports: a room may import only rooms above it in the list, and no files import each other in a
// circle. Run as a program, it checks the whole tree.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The rooms of packages/server/src, from what knows nothing of the service to what can be started. A room imports only rooms
 * above it. A rank with several steps is a room that is built in steps: each imports only those before it in the line. What
 * stands in one step does not import each other.
 */
const ranks = [
  // Errors that callers see, settings that operators set, and limits that nobody sets. They know nothing of the service. Before them
  // only what they are made of and checked with: sizes in bytes, addresses of the network.
  [['lib/bytes', 'lib/networks'], ['settings/limits'], ['errors', 'settings']],
  // Turns, slots, pauses, memory, the log: each once for the whole house.
  [['lib']],
  // The wire, pools, the service's own connections, replication. The only room that imports a driver.
  [
    ['postgres/sql', 'postgres/sqlstate'],
    ['postgres/wire', 'postgres/stored-rate-limits'],
    ['postgres/pool', 'postgres/admin'],
    ['postgres/replication'],
  ],
  // The service's own tables: changes that every process follows, leases, settings, secrets, audit, saved queries.
  [['control'], ['control/saved']],
  // PostgreSQL servers and what the service makes in them: the embedded one, templates, databases and roles, guards, the fleet.
  [
    ['servers/engine-error', 'servers/role-passwords'],
    ['servers/external'],
    ['servers/embedded', 'servers/template'],
    ['servers/server'],
    ['servers/databases'],
    ['servers/guards'],
    ['servers'],
  ],
  // Who calls, and what they may do. TLS: how they connect.
  [['keys', 'tls']],
  // Long work, and answers that are kept for a repeated request.
  [['jobs']],
  // How large a project may become: measuring, refusing, reclaiming.
  [['quotas'], ['quotas/reclaiming'], ['quotas/direct']],
  // The life of a project, and the way to it for PostgreSQL's own clients.
  [['projects', 'postgres-proxy']],
  // A statement, from its text to the bytes of its rows.
  [
    ['query/statement', 'query/json'],
    ['query/exchange'],
    ['query/sessions'],
    ['query/admission'],
    ['query/sharing'],
    ['query'],
  ],
  // Tables without SQL, as statements.
  [['tables/request', 'tables/catalog'], ['tables/sql'], ['tables/write', 'tables/import'], ['tables']],
  // Users of a project, people at the console, accounts of the installation.
  [['access/passwords', 'access/mail'], ['access/end-users'], ['access/people'], ['access/accounts']],
  // A project as a file, and a file as a project.
  [['transfer/read'], ['transfer/export'], ['transfer/receive'], ['transfer/import']],
  // Copies of whole projects: branches on the same server, moves to another one.
  [['branches'], ['moves']],
  // Copies of whole servers in storage: take, keep, restore, check.
  [
    ['backups/storage'],
    ['backups/repository'],
    ['backups/wal', 'backups/take'],
    ['backups'],
    ['backups/restore'],
    ['backups/check'],
  ],
  // What one process of the installation does for all.
  [['background']],
  // Metrics, tools for agents, the OpenAPI document.
  [['metrics', 'mcp', 'openapi']],
  // Every request: read it, call one domain function, answer.
  [
    ['http'],
    ['http/request'],
    ['http/response'],
    ['http/routes'],
    ['http/routes/end-users', 'http/routes/neon'],
    ['http/fast', 'http/console'],
  ],
  // What can be started.
  [['programs/adoption', 'programs/rotation'], ['service', 'app'], ['programs'], ['main']],
];
const levels = new Map(ranks.flat().flatMap((modules, level) => modules.map((module) => [module, level])));

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
const fromPattern = /(?<![.\w])(?:from|import)\s*\(?\s*'([^']+)'/g;
const drivers = ['pg', 'pg-protocol', 'pg-cursor'];

/** The problems of one file, given its path from the root and its text. */
export function problemsOf(file, text) {
  const [, name, area] = /^packages\/([^/]+)\/(src|test)\//.exec(file) ?? [];
  if (!name || area === 'test' || file.endsWith('.test.ts')) return [];
  const problems = [];
  // A value of the API package would bring its schemas and their library into the page.
  if (name === 'console' && /import (?!type )[^;]*from '@rowhouse\/api'/.test(text))
    problems.push('the console may import only types from @rowhouse/api');
  for (const [, from] of text.matchAll(fromPattern)) {
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

/** The file, if the order has it, or its folder, which must be in the order. */
function moduleOf(file) {
  const inside = file.replace(/\.ts$/, '').split('/').slice(3).join('/');
  return levels.has(inside) || !inside.includes('/') ? inside : path.posix.dirname(inside);
}

/** Files that import each other in a circle, given the text of each by its path: one line for each circle. */
export function circlesOf(texts) {
  const importsOf = (file) =>
    [...(texts.get(file) ?? '').matchAll(fromPattern)]
      .filter(([, from]) => from.startsWith('.'))
      .map(([, from]) => path.posix.join(path.posix.dirname(file), from))
      .filter((target) => texts.has(target));
  const circles = [];
  const state = new Map();
  const way = [];
  const visit = (file) => {
    state.set(file, 'open');
    way.push(file);
    for (const target of importsOf(file)) {
      if (state.get(target) === 'open') circles.push([...way.slice(way.indexOf(target)), target].join(' → '));
      else if (!state.has(target)) visit(target);
    }
    way.pop();
    state.set(file, 'done');
  };
  for (const file of texts.keys()) if (!state.has(file)) visit(file);
  return circles;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL('..', import.meta.url));
  const files = readdirSync(path.join(root, 'packages'), { recursive: true })
    .map((file) => `packages/${file.split(path.sep).join('/')}`)
    .filter((file) => /^packages\/[^/]+\/src\/.*\.tsx?$/.test(file));
  const texts = new Map(files.map((file) => [file, readFileSync(path.join(root, file), 'utf8')]));
  const server = [...texts].filter(([file]) => /^packages\/server\/.*(?<!\.test)\.ts$/.test(file));
  const problems = [
    ...[...texts].flatMap(([file, text]) => problemsOf(file, text)),
    ...circlesOf(new Map(server)).map((circle) => `circle: ${circle}`),
  ];
  for (const problem of problems) console.error(problem);
  console.log(`imports: ${files.length} files, ${problems.length} problems`);
  process.exit(problems.length > 0 || files.length === 0 ? 1 : 0);
}
