// Bundles the client as ESM and as CommonJS, beside the types that tsc wrote to dist. Both can be read, because Node
// prints the line that threw; the minified one is for pages that load it from a CDN.
import { copyFileSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { rolldown } from 'rolldown';

const folder = import.meta.dirname;
const dist = path.join(folder, 'dist');

await build();

async function build() {
  const bundle = await rolldown({ input: path.join(folder, 'src', 'index.ts'), platform: 'neutral' });
  mkdirSync(path.join(dist, 'cjs'), { recursive: true });
  // Files of CommonJS, types too, have to lie under a package.json that says so.
  writeFileSync(path.join(dist, 'cjs', 'package.json'), '{ "type": "commonjs" }\n');
  for (const name of readdirSync(dist).filter((file) => file.endsWith('.d.ts')))
    copyFileSync(path.join(dist, name), path.join(dist, 'cjs', name));
  await bundle.write({ format: 'cjs', file: path.join(dist, 'cjs', 'index.js') });
  await bundle.write({ format: 'esm', file: path.join(dist, 'index.min.js'), minify: true, comments: false });
  await bundle.write({ format: 'esm', file: path.join(dist, 'index.js') });
  await bundle.close();
}
