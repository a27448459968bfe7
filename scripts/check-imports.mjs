// Checks the direction of imports. Read from top to bottom, the list of ranks is the architecture of the service: each rank
// is a sentence about what its rooms are for, and stands on the ranks above it. The console has such a list, too. In no package do
// files import each other in a circle, not even for types. Run as a program, it checks the whole tree.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/**
 * The rooms of packages/server/src. A room may import rooms of the ranks above its own. Rooms of one rank do not import each
 * other. Where a rank has several steps, each step may also import the steps before it. A name is a folder, which covers the
 * files in it but no folders in it, or a file that stands on another step than its folder.
 */
export const ranks = [
  // What operators set, limits that nobody sets, and what callers are told when something fails. None knows the service. Before
  // them only what they are made of and checked with: sizes in bytes, addresses of the network.
  [['lib/bytes', 'lib/networks'], ['settings/limits'], ['settings', 'errors']],
  // Tools that know no domain: turns, slots, pauses, memory, the log.
  [['lib']],
  // The way to PostgreSQL: the protocol, pools, the service's own connections, replication. Only this room imports a driver.
  [
    ['postgres/sql', 'postgres/sqlstate', 'postgres/bytea-array'],
    ['postgres/wire', 'postgres/stored-rate-limits'],
    ['postgres/pool', 'postgres/admin'],
    ['postgres/replication'],
  ],
  // What the service knows, in tables of its own: a feed of changes, leases, sealed secrets, the audit log, saved queries.
  [['control'], ['control/saved']],
  // The PostgreSQL servers, and what the service makes in each: templates, databases and roles of projects, guards.
  [
    ['servers/engine-error', 'servers/role-passwords'],
    ['servers/external'],
    ['servers/embedded', 'servers/template'],
    ['servers/server'],
    ['servers/databases'],
    ['servers/guards'],
    ['servers'],
  ],
  // Who calls and what they may do; the certificates that protect their connections.
  [['keys', 'tls']],
  // Work that takes longer than a request, and answers that are kept for repeated requests.
  [['jobs']],
  // How large a project may become: size limits, measuring, reclaiming space, direct connections that write.
  [['quotas'], ['quotas/reclaiming'], ['quotas/direct']],
  // The life of a project from its creation to its end, and the port where PostgreSQL's own clients reach it.
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
  // Requests for rows of a table, which become statements.
  [['tables/request', 'tables/catalog'], ['tables/sql'], ['tables/write', 'tables/import'], ['tables']],
  // Who signs in: users of a project, people at the console. Accounts, to which people and projects belong.
  [['access/passwords', 'access/mail'], ['access/end-users'], ['access/people'], ['access/accounts']],
  // A project leaves as a file, and a file becomes a project.
  [['transfer/read'], ['transfer/export'], ['transfer/receive'], ['transfer/import']],
  // A project is copied: to a branch on its server, or to another server.
  [['branches'], ['moves']],
  // Servers are copied to storage, all the time; projects and whole installations are restored from there.
  [
    ['backups/storage'],
    ['backups/repository'],
    ['backups/wal', 'backups/take'],
    ['backups'],
    ['backups/restore'],
    ['backups/check'],
  ],
  // What runs without a request, in one process for all.
  [['background']],
  // What others read: metrics for operators, tools for agents, the OpenAPI document for programs.
  [['metrics', 'mcp', 'openapi']],
  // Every request: who calls, what they want, one call of a domain function, the response.
  [
    ['http'],
    ['http/request'],
    ['http/response'],
    ['http/routes'],
    ['http/routes/end-users', 'http/data'],
    ['http/data/neon'],
    ['http/fast', 'http/console'],
  ],
  // What is started: the service, which puts everything together, and the programs beside it.
  [['programs/adoption', 'programs/rotation'], ['service', 'app'], ['programs'], ['main']],
];
/** The folders of packages/console/src, by the same rules. */
export const consoleRanks = [
  // How much the console reads at once, its colours, and its requests to the service.
  [['limits', 'theme', 'api']],
  // The design system; the texts of the SQL editor, which have to survive the end of a session.
  [['ui', 'drafts']],
  // Who is signed in and what they may do; the data grid, which knows no table.
  [['session', 'grid']],
  // One folder for each screen, and its dialogs. A few screens show parts of others.
  [
    ['audit', 'keys', 'logs', 'people', 'projects', 'reference', 'server', 'sql', 'tables', 'usage', 'users'],
    ['account', 'accounts', 'profile', 'schema', 'settings'],
  ],
  // What surrounds every screen: the sidebar, the menus, the search.
  [['shell']],
  // The address of each screen, and the start of the page.
  [['routes'], ['app'], ['main']],
];
const levelsOf = (list) =>
  new Map(list.flat().flatMap((modules, level) => modules.map((module) => [module, level])));
const orders = { server: levelsOf(ranks), console: levelsOf(consoleRanks) };

/** The packages of this repository that each package may import. */
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

/** What is wrong with the imports of one file, given its path from the root and its text. */
export function problemsOf(file, text) {
  const [, name, area] = /^packages\/([^/]+)\/(src|test)\//.exec(file) ?? [];
  if (!name || area === 'test' || file.endsWith('.test.ts')) return [];
  const problems = [];
  // A value would bring the schemas and their library into the page.
  if (name === 'console' && /import (?!type )[^;]*from '@rowhouse\/api'/.test(text))
    problems.push('the console may import only types from @rowhouse/api');
  for (const [, from] of text.matchAll(fromPattern)) {
    if (from.startsWith('.')) {
      if (path.posix.join(path.posix.dirname(file), from).split('/')[1] !== name)
        problems.push(`${from} leaves the package`);
      else if (orders[name]) problems.push(...upward(orders[name], file, from));
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

function upward(levels, file, from) {
  const importing = moduleOf(levels, file);
  const imported = moduleOf(levels, path.posix.join(path.posix.dirname(file), from));
  for (const module of [importing, imported]) {
    if (!levels.has(module)) return [`${module} is not in the import order (scripts/check-imports.mjs)`];
  }
  if (importing === imported || levels.get(imported) < levels.get(importing)) return [];
  return [`${importing} may not import ${imported}`];
}

/** What stands for a file in the ranks: its own name if they have it, otherwise its folder. */
function moduleOf(levels, file) {
  const inside = file
    .replace(/\.tsx?$/, '')
    .split('/')
    .slice(3)
    .join('/');
  return levels.has(inside) || !inside.includes('/') ? inside : path.posix.dirname(inside);
}

/** Files that import each other in a circle, also through types alone, given the text of each by its path. One line a circle. */
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
  const problems = [
    ...[...texts].flatMap(([file, text]) => problemsOf(file, text)),
    ...circlesOf(texts).map((circle) => `circle: ${circle}`),
  ];
  for (const problem of problems) console.error(problem);
  console.log(`imports: ${files.length} files, ${problems.length} problems`);
  process.exit(problems.length > 0 || files.length === 0 ? 1 : 0);
}
