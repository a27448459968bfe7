// What a browser loads before it shows the first screen: the scripts that the page imports, without those that a screen loads later.
import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { builtConsole } from './visit.ts';

const maxBytes = 120_000;

it('the first screen has at most 120 KB of scripts and styles, compressed by gzip', () => {
  const read = (file: string) => readFileSync(path.join(builtConsole.folder, file), 'utf8');
  const found = [...read('index.html').matchAll(/\/console\/(assets\/[^"]+\.(?:js|css))/g)].map(
    ([, file = '']) => file,
  );
  const loaded = new Set<string>();
  for (let file = found.pop(); file !== undefined; file = found.pop()) {
    if (loaded.has(file)) continue;
    loaded.add(file);
    if (!file.endsWith('.js')) continue;
    for (const [, name = ''] of read(file).matchAll(/(?:from|import)\s*["']\.\/([^"']+\.js)["']/g))
      found.push(`assets/${name}`);
  }
  const sizes = [...loaded].map((file) => statSync(path.join(builtConsole.folder, `${file}.gz`)).size);
  const sum = sizes.reduce((total, size) => total + size, 0);
  expect(loaded.size).toBeGreaterThan(1);
  expect(sum, [...loaded].join(', ')).toBeLessThanOrEqual(maxBytes);
});
