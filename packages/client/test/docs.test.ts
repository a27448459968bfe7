// Every ts block of a page is part of one program, which is compiled and run; what it prints stands in its comments.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { createAccountClient, createClient } from '../src/index.ts';
import { useLive } from './live.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const tsc = createRequire(import.meta.url)
  .resolve('typescript/package.json')
  .replace('package.json', 'bin/tsc');
const live = useLive();

const todos = [
  `create table todos (id bigint generated always as identity primary key,
     user_id uuid not null default auth.uid() references auth.users on delete cascade, title text not null)`,
  'alter table todos enable row level security',
  'create policy own_rows on todos to authenticated using ((select auth.uid()) = user_id)',
  'create table posts (title text primary key)',
  "insert into posts values ('Hello')",
  'alter table posts enable row level security',
  'grant select on posts to anon',
  'create policy public_posts on posts for select to anon using (true)',
];

it.each([
  ['README.md', []],
  ['packages/client/README.md', []],
  ['docs/client.md', []],
  ['docs/users.md', todos],
])('every ts block in %s runs and prints what it says', async (file, setup) => {
  const { text, expected } = programIn(readFileSync(path.join(root, file), 'utf8'));
  const account = createAccountClient({ url: live.url, apiKey: live.rowhouse.accountKey });
  for await (const { slug } of account.projects.list())
    if (slug !== live.slug) await account.projects.delete(slug);
  const { project, api_key } = await account.projects.create({ name: `Page ${expected.length}` });
  const { slug } = project;
  const { api_key: publishable } = await account.keys.issue(slug, { name: 'browser', kind: 'publishable' });
  const db = createClient({ url: live.url, apiKey: api_key, project: slug });
  for (const statement of setup) await db.query(statement);

  const folder = newFolder();
  const here = text
    .replaceAll('http://127.0.0.1:8765', live.url)
    .replaceAll('rh_proj_…', api_key)
    .replaceAll('rh_pub_…', publishable)
    .replaceAll('rh_acct_…', live.rowhouse.accountKey)
    .replaceAll('my-shop', slug);
  writeFileSync(path.join(folder, 'page.mts'), here);
  const flags = [
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2022',
    '--lib',
    'es2022,dom,dom.asynciterable',
  ];
  // Not in this process's own time: the service that answers runs in it.
  const run = (...args: string[]) => promisify(execFile)(process.execPath, args, { cwd: folder });
  await run(tsc, ...flags, '--types', '', 'page.mts').catch(({ stdout }) =>
    expect.fail(`${stdout}\n${here}`),
  );
  // People run the README's block as it stands, without a compiler.
  if (file === 'README.md') writeFileSync(path.join(folder, 'page.mjs'), here);
  const { stdout, stderr } = await run('page.mjs');
  expect(stderr).toBe('');
  const printed = stdout.trimEnd().replaceAll(slug, 'my-shop').split('\n');
  // Projects of other pages are none of this one's business.
  expect(printed.filter((line) => line !== live.slug)).toEqual(expected);
});

/** Imports may stand in every block, names only once. */
function programIn(markdown: string): { text: string; expected: string[] } {
  const text = [...markdown.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, block = '']) => block).join('\n');
  expect(text).not.toBe('');
  const expected: string[] = [];
  for (const line of text.split('\n')) {
    const [, code = '', comment] = /^(.*?)(?:(?<=^|; )\/\/ (?!@)(.*))?$/.exec(line) ?? [];
    if (comment !== undefined) expected.push(comment);
    else if (/^console\.log/.test(code)) expect.fail(`What does it print? ${line}`);
  }
  return { text, expected };
}

function newFolder(): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-client-docs-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(path.join(folder, 'node_modules', '@rowhouse'), { recursive: true });
  symlinkSync(
    path.join(root, 'packages', 'client'),
    path.join(folder, 'node_modules', '@rowhouse', 'client'),
  );
  return folder;
}
