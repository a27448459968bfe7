import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { circlesOf, consoleRanks, problemsOf, ranks } from './check-imports.mjs';

const at = (file, ...imports) =>
  problemsOf(file, imports.map((from) => `import { x } from '${from}';`).join('\n'));
const server = 'packages/server/src';
const page = 'packages/console/src';
const root = path.resolve(import.meta.dirname, '..');

it('accepts imports of modules that come earlier in the order', () => {
  expect(
    at(
      `${server}/http/routes/projects.ts`,
      '../../projects/find.ts',
      '../../errors/errors.ts',
      '../request/caller.ts',
      '@rowhouse/api',
    ),
  ).toEqual([]);
  expect(at(`${server}/postgres/admin/database.ts`, 'pg', '../../errors/errors.ts')).toEqual([]);
  expect(at(`${server}/query/run.ts`, './sharing/pipelines.ts', './admission.ts')).toEqual([]);
  expect(at(`${server}/query/sharing/group-commit.ts`, '../admission.ts', './per-project.ts')).toEqual([]);
  expect(at('packages/cli/src/settings.ts', '@rowhouse/api/settings')).toEqual([]);
  expect(at(`${page}/sql/sql.tsx`, '../grid/grid.tsx', '../session/may.ts', './sql.css')).toEqual([]);
  expect(at(`${page}/app.tsx`, './shell/shell.tsx', './limits.ts')).toEqual([]);
});

it.each([
  [`${server}/projects/find.ts`, '../http/request/caller.ts', 'projects may not import http'],
  [`${server}/keys/manage.ts`, '../projects/find.ts', 'keys may not import projects'],
  [`${server}/errors/errors.ts`, '../settings/config.ts', 'errors may not import settings'],
  [
    `${server}/postgres/wire/session.ts`,
    '../admin/database.ts',
    'postgres/wire may not import postgres/admin',
  ],
  [`${server}/metrics/metrics.ts`, '../http/response/request-log.ts', 'metrics may not import http'],
  [`${server}/projects/find.ts`, 'pg', 'only postgres/ may import a driver'],
  [`${server}/helpers/x.ts`, '../errors/errors.ts', 'helpers is not in the import order'],
  [`${server}/keys/manage.ts`, '../helpers/x.ts', 'helpers is not in the import order'],
  [
    `${server}/query/json/row-writer.ts`,
    '../exchange/exchange.ts',
    'query/json may not import query/exchange',
  ],
  [`${server}/query/sharing/pipelines.ts`, '../run.ts', 'query/sharing may not import query'],
  [
    `${server}/query/admission.ts`,
    './sharing/group-commit.ts',
    'query/admission may not import query/sharing',
  ],
  [`${server}/query/helpers/x.ts`, '../../errors/errors.ts', 'query/helpers is not in the import order'],
  [`${server}/errors/errors.ts`, '../../../cli/src/main.ts', 'leaves the package'],
  ['packages/cli/src/main.ts', '@rowhouse/server', 'cli may not import @rowhouse/server'],
  ['packages/console/src/app.tsx', '@rowhouse/server', 'console may not import @rowhouse/server'],
  ['packages/console/src/app.tsx', '../../server/src/app.ts', 'leaves the package'],
  ['packages/console/src/app.tsx', '@rowhouse/api', 'the console may import only types'],
  [`${page}/ui/toast.tsx`, '../session/session.ts', 'ui may not import session'],
  [`${page}/session/session.ts`, '../sql/sql.tsx', 'session may not import sql'],
  [`${page}/keys/keys.tsx`, '../shell/shell.tsx', 'keys may not import shell'],
  [`${page}/limits.ts`, './app.tsx', 'limits may not import app'],
  [`${page}/other/x.ts`, '../ui/toast.tsx', 'other is not in the import order'],
  ['packages/cli/src/main.ts', '@rowhouse/api/dist/index.js', 'cli may not import @rowhouse/api/dist'],
  ['packages/client/src/client.ts', '@rowhouse/api', 'the client must run everywhere'],
  ['packages/client/src/client.ts', 'node:crypto', 'the client must run everywhere'],
  ['packages/api/src/keys.ts', '@rowhouse/server/main', 'api may not import'],
])('%s may not import %s', (file, from, problem) => {
  expect(at(file, from).join()).toContain(problem);
});

it('checks dynamic imports and re-exports, too', () => {
  const file = `${server}/keys/manage.ts`;
  expect(problemsOf(file, "const a = await import('../http/request/caller.ts');").length).toBe(1);
  expect(problemsOf(file, "export { a } from '../http/request/caller.ts';").length).toBe(1);
});

it('finds files that import each other in a circle, and no others', () => {
  const texts = new Map([
    ['a/one.ts', "import type { Two } from './two.ts';"],
    ['a/two.ts', "import { three } from '../b/three.ts';"],
    ['b/three.ts', "export { one } from '../a/one.ts';"],
    ['b/four.ts', "import { one } from '../a/one.ts';"],
  ]);
  expect(circlesOf(texts)).toEqual(['a/one.ts → a/two.ts → b/three.ts → a/one.ts']);
  texts.set('b/three.ts', '');
  expect(circlesOf(texts)).toEqual([]);
});

it("the console's ranks name every folder and file of it, and no other", () => {
  const present = readdirSync(path.join(root, page)).map((name) => name.replace(/\.tsx?$/, ''));
  expect(consoleRanks.flat(2).sort()).toEqual(present.sort());
});

it('the list of ranks fits on a screen, names only what exists, and is the one in CONTRIBUTING.md', () => {
  expect(ranks.length).toBeLessThanOrEqual(20);
  for (const name of ranks.flat(2)) {
    const place = path.join(root, server, name);
    expect(existsSync(place) || existsSync(`${place}.ts`), name).toBe(true);
  }
  // Two files of lib/ stand before the rank of the room.
  const names = ranks.map((rank) => rank.flat().filter((name) => !name.startsWith('lib/')));
  const rooms = names.map((rank) => [...new Set(rank.map((name) => name.split('/')[0]))].join(', '));
  expect(readFileSync(path.join(root, 'CONTRIBUTING.md'), 'utf8')).toContain(`\`${rooms.join(' ← ')}\``);
});
