// Bundles the client as ESM and as CommonJS, beside the types that tsc wrote to dist. Both can be read, because Node
// prints the line that threw; the minified one is for pages that load it from a CDN. Each entry is a file of its own.
import { copyFileSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { rolldown } from 'rolldown';

const folder = import.meta.dirname;
const dist = path.join(folder, 'dist');

mkdirSync(path.join(dist, 'cjs'), { recursive: true });
// Files of CommonJS, types too, have to lie under a package.json that says so.
writeFileSync(path.join(dist, 'cjs', 'package.json'), '{ "type": "commonjs" }\n');
for (const name of readdirSync(dist).filter((file) => file.endsWith('.d.ts')))
  copyFileSync(path.join(dist, name), path.join(dist, 'cjs', name));
for (const entry of ['index', 'admin']) await build(entry);

async function build(entry) {
  const bundle = await rolldown({ input: path.join(folder, 'src', `${entry}.ts`), platform: 'neutral' });
  const minified = { minify: true, comments: false };
  await bundle.write({ format: 'cjs', file: path.join(dist, 'cjs', `${entry}.js`) });
  await bundle.write({ format: 'esm', file: path.join(dist, `${entry}.min.js`), ...minified });
  await bundle.write({ format: 'esm', file: path.join(dist, `${entry}.js`) });
  await bundle.close();
}
