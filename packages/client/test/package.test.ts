// What is published: how large it is, that it loads both ways and runs without Node, and that its types fit.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import vm from 'node:vm';
import { gzipSync } from 'node:zlib';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { describe, expect, it, onTestFinished } from 'vitest';
import type * as Client from '../src/index.ts';
import { useLive } from './live.ts';

const folder = path.resolve(import.meta.dirname, '..');
const read = (file: string) => readFileSync(path.join(folder, file), 'utf8');
const manifest = JSON.parse(read('package.json'));
const live = useLive();

it('the main entry is at most 6.5 KB, minified and gzipped, and administration is a second one', () => {
  expect(gzipSync(read('dist/index.min.js')).length).toBeLessThanOrEqual(6.5 * 1024);
  expect(read('dist/index.min.js')).not.toContain('act-as');
  expect(read('dist/admin.min.js')).toContain('act-as');
});

it('the package has no dependencies and uses nothing of Node', () => {
  expect([manifest.dependencies, manifest.peerDependencies, manifest.optionalDependencies]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  for (const file of ['dist/index.min.js', 'dist/cjs/index.js', 'dist/admin.min.js', 'dist/cjs/admin.js']) {
    const text = read(file).replaceAll(/^\s*(\/\/|\/?\*).*$/gm, '');
    expect(text).not.toMatch(
      /\brequire\(|\bimport\b(?!:)|node:|\bprocess\b|\bBuffer\b|\bglobal\b|__dirname|setImmediate/,
    );
  }
});

it('the package passes publint', async () => {
  const { messages, pkg } = await publint({ pkgDir: folder, strict: true });
  expect(messages.map((message) => formatMessage(message, pkg))).toEqual([]);
});

describe('the package loads and works', () => {
  const works = async ({ createClient, RowhouseError, safe }: typeof Client) => {
    const db = createClient({ url: live.url, apiKey: live.projectKey, project: live.slug });
    expect((await db.sql`select ${41}::int + 1 as answer`).rows).toEqual([{ answer: 42 }]);
    const { error } = await safe(db.query('select nope'));
    expect(error).toBeInstanceOf(RowhouseError);
    const rows: unknown[] = [];
    for await (const row of db.query.stream('select generate_series(1, 3) as n')) rows.push(row);
    expect(rows).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
  };

  it.each(['index.js', 'index.min.js'])('as ESM, %s', async (file) =>
    works(await import(path.join(folder, 'dist', file))),
  );

  it('as CommonJS', async () => works(createRequire(import.meta.url)('@rowhouse/client')));

  it('with its second entry, in both ways', async () => {
    const entries = [
      await import(path.join(folder, 'dist/admin.js')),
      createRequire(import.meta.url)('@rowhouse/client/admin'),
    ];
    for (const { createAdmin } of entries) {
      const admin = createAdmin({ url: live.url, apiKey: live.projectKey, project: live.slug });
      expect((await admin.usage()).usage.status).toBe('ready');
    }
  });

  it('with only what browsers and edge runtimes have', async () => {
    const sandbox = {
      fetch,
      URL,
      AbortController,
      AbortSignal,
      TextDecoder,
      TextEncoder,
      setTimeout,
      clearTimeout,
      crypto,
      exports: {} as typeof Client,
    };
    vm.runInNewContext(read('dist/cjs/index.js'), sandbox);
    const { createClient } = sandbox.exports;
    const db = createClient({ url: live.url, apiKey: live.projectKey, project: live.slug });
    const { rows } = await db.query('select $1::int as n', [7]);
    expect(JSON.stringify(rows)).toBe('[{"n":7}]');
    let seen = 0;
    for await (const _ of db.query.stream('select generate_series(1, 20000) as n')) seen++;
    expect(seen).toBe(20_000);
  });
});

it('types fit a program in either way of modules, without those of Node', () => {
  const project = mkdtempSync(path.join(tmpdir(), 'rowhouse-client-types-'));
  onTestFinished(() => rmSync(project, { recursive: true, force: true }));
  const installed = path.join(project, 'node_modules', '@rowhouse', 'client');
  mkdirSync(installed, { recursive: true });
  for (const part of ['dist', 'package.json'])
    cpSync(path.join(folder, part), path.join(installed, part), { recursive: true });
  const program = `
    import { createClient, RowhouseError } from '@rowhouse/client';
    import { createAdmin } from '@rowhouse/client/admin';
    export const admin = createAdmin({ apiKey: 'x', project: 'y' }).usage().then(({ usage }) => usage.size_mb.toFixed());
    const db = createClient({ apiKey: 'x', project: 'y' });
    export const rows: Promise<{ n: number }[]> = db.query<{ n: number }>('select 1 as n').then((result) => result.rows);
    export const isOurs = (error: unknown) => error instanceof RowhouseError && error.sql?.state;
    // @ts-expect-error: sql is a tag
    db.sql('select 1');
  `;
  for (const name of ['esm.mts', 'cjs.cts']) writeFileSync(path.join(project, name), program);
  const tsc = createRequire(import.meta.url)
    .resolve('typescript/package.json')
    .replace('package.json', 'bin/tsc');
  const flags = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--lib', 'es2022,dom'];
  const output = execFileSync(process.execPath, [tsc, ...flags, '--types', '', 'esm.mts', 'cjs.cts'], {
    cwd: project,
    encoding: 'utf8',
  });
  expect(output).toBe('');
});

it('every export is documented, and every function has an example', () => {
  const sources = readdirSync(path.join(folder, 'src')).filter((name) => !name.includes('.test.'));
  const text = sources.map((name) => read(`src/${name}`)).join('\n');
  const exported = read('src/index.ts').matchAll(/^(?:export.*\{ | {2})(type )?(\w+)[,} ]/gm);
  const names = [...exported].map(([, , name]) => name);
  expect(names).toContain('createClient');
  for (const name of names) {
    const declared = `export (?:(type|interface)|class|(?:async )?function) ${name}\\b`;
    const [, comment = '', isType] =
      new RegExp(`(?:/\\*\\*((?:[^*]|\\*(?!/))*)\\*/\\n)?${declared}`).exec(text) ?? [];
    expect(comment, name).not.toBe('');
    if (!isType) expect(comment, name).toContain('@example');
  }
});
