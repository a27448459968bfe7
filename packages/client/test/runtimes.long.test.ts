// The package in the runtimes that it names: other versions of Node.js, Deno, Bun, Chromium and Firefox. Those that cannot be
// installed here are reported and skipped.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { chromium, firefox } from 'playwright-core';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { findProgram, type ProgramName } from '../../server/test/support/programs.ts';
import { environment } from '../../server/test/support/toolchains.ts';
import { useLive } from './live.ts';

const live = useLive();
const root = path.resolve(import.meta.dirname, '../../..');
const { findBrowser, howToInstall } = (await import(path.join(root, 'scripts/browsers.mjs'))) as {
  findBrowser(name: string): { executablePath: string; channel?: string } | null;
  howToInstall(name: string): string;
};
const dist = path.resolve(import.meta.dirname, '../dist');
const folder = mkdtempSync(path.join(inject('sharedFolder'), 'runtimes-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs in each of them, and gives one line of text. */
const program = `
const db = createClient({ url, apiKey, project, numbers: 'bigint' });
await db.query('drop table if exists visits');
await db.query('create table visits (id int primary key, name text)');
await db.table('visits').import('csv', 'id,name\\n1,Ann\\n');
await db.table('visits').insert({ id: 2, name: 'Ben' });
let csv = '';
for await (const piece of db.table('visits').order('id').export('csv')) csv += piece;
let count = 0;
for await (const _ of db.query.stream('select generate_series(1, 5000) as n')) count++;
const { rows } = await db.sql\`select \${9007199254740993n}::int8 as n\`;
const { error } = await safe(db.query('select nope'));
const refused = await safe(createClient({ url: 'http://127.0.0.1:9', apiKey, project, retries: 0 }).query('select 1'));
const said = JSON.stringify([csv, count, String(rows[0].n), error.code, error instanceof RowhouseError, refused.error.code]);
`;
const expected = JSON.stringify([
  'id,name\n1,Ann\n2,Ben\n',
  5000,
  '9007199254740993',
  'sql_error',
  true,
  'network_error',
]);

beforeAll(() => {
  const settings = settingsOf();
  const imported = `import { createClient, RowhouseError, safe } from ${JSON.stringify(path.join(dist, 'index.js'))};`;
  writeFileSync(
    path.join(folder, 'program.mjs'),
    `${imported}\n${settings}\n${program}\nconsole.log(said);\n`,
  );
});

/** A module that exports the line. */
const inBrowser = (library: string, settings: string) =>
  `import { createClient, RowhouseError, safe } from ${JSON.stringify(library)};\n${settings}\n${program}\nexport default said;`;
const settingsOf = () =>
  `const [url, apiKey, project] = ${JSON.stringify([live.url, live.projectKey, live.slug])};`;

const runtimes: [name: ProgramName, args: string[], options: { tags?: string[] }][] = [
  ['deno', ['run', '--allow-net', '--allow-read', '--no-config'], {}],
  ['bun', [], {}],
  ['node 22', [], { tags: ['long'] }],
  ['node 24', [], { tags: ['long'] }],
];

it('the client works in this Node.js', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [path.join(folder, 'program.mjs')]);
  expect(stdout.trim()).toBe(expected);
});

for (const [name, args, options] of runtimes) {
  it(`the client works in ${name}`, { timeout: 600_000, ...options }, async ({ skip }) => {
    const program = await findProgram(name, 'the client was not tried in it');
    if (!program) return skip();
    const { stdout } = await promisify(execFile)(program, [...args, path.join(folder, 'program.mjs')], {
      env: { ...process.env, no_proxy: '127.0.0.1', NO_PROXY: '127.0.0.1' },
    });
    expect(stdout.trim()).toBe(expected);
  });
}

it.for(['chromium', 'firefox'] as const)(
  'the client works in %s',
  { timeout: 300_000, tags: 'long' },
  async (name, { skip }) => {
    const found = findBrowser(name);
    if (!found)
      return skip(`${name} is not installed, so the client was not tried in it. ${howToInstall(name)}`);
    const args = name === 'chromium' ? ['--no-sandbox'] : [];
    const browser = await { chromium, firefox }[name].launch({ ...found, args, env: environment });
    try {
      const page = await browser.newPage();
      await page.goto(`${live.url}/healthz`);
      const library = JSON.stringify(readFileSync(path.join(dist, 'index.min.js'), 'utf8'));
      const [before, after] = inBrowser('@@', settingsOf())
        .split('@@')
        .map((text) => JSON.stringify(text));
      // As text: a function would be rewritten by the tools of the tests.
      const said = await page.evaluate(`(async () => {
      const toUrl = (text) => URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
      return (await import(toUrl(${before} + toUrl(${library}) + ${after}))).default;
    })()`);
      expect(said).toBe(expected);
    } finally {
      await browser.close();
    }
  },
);
