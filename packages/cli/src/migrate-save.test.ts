import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { splitStatements } from '@rowhouse/api/statements';
import { expect, it, onTestFinished } from 'vitest';
import { saveMigrations } from './migrate-save.ts';

const range = (count: number) => Array.from({ length: count }, (_, n) => n);
const newValues = (count: number) => range(count).map((n) => `alter type mood add value 'v${n}'`);
const newTables = (count: number) => range(count).map((n) => `create table t${n} (id int)`);

it.each([
  [0, 1, [1]],
  [1, 0, [1]],
  [1, 1, [1, 1]],
  [990, 0, [990]],
  [991, 0, [990, 1]],
  [2_500, 1_000, [990, 990, 520, 990, 10]],
])('%i new values and %i other statements fit into transactions', (values, others, sizes) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-save-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [added, made] = [newValues(values), newTables(others)];
  // Whatever their order is, values come first.
  const files = saveMigrations(folder, 'many', [...made, ...added]);
  const parts = files.map((file) => splitStatements(readFileSync(file, 'utf8')).map(({ text }) => text));
  expect(parts.map(({ length }) => length)).toEqual(sizes);
  expect(parts.flat()).toEqual([...added, ...made]);
  const isMixed = (part: string[]) => new Set(part.map((text) => text.slice(0, 6))).size > 1;
  expect(parts.some(isMixed)).toBe(false);
});

it('a comment alone is written', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-save-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [file = ''] = saveMigrations(folder, 'comment', ['-- By hand: x']);
  expect(readFileSync(file, 'utf8')).toBe('-- By hand: x\n');
});

it('statements that belong together stay together', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'rowhouse-save-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const pair = 'create table pair (id int);\ncomment on table pair is $$a; b$$';
  const files = saveMigrations(folder, 'pairs', [...newTables(989), pair]);
  expect(files.map((file) => splitStatements(readFileSync(file, 'utf8')).length)).toEqual([989, 2]);
});
