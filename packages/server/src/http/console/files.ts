// The built files of the console. They are read once, at the start: a request can name only a file that was there, and no
// path reaches the disk.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export type ConsoleFile = Readonly<{
  type: string;
  etag: string;
  plain: Buffer;
  /** Compressed when the console was built. */
  br: Buffer | null;
  gzip: Buffer | null;
}>;
/** By path from /console/, such as assets/index-4fQ1.js. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>;

const types: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.txt': 'text/plain; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.webp': 'image/webp',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.wasm': 'application/wasm',
};

/** In a clone of the repository, beside this package; in the published package, inside of it. null: not built. */
export function findConsole(): string | null {
  const own = fileURLToPath(new URL('../../../', import.meta.url));
  const folders = [path.join(own, '..', 'console', 'dist'), path.join(own, 'console')];
  return folders.find((folder) => existsSync(path.join(folder, 'index.html'))) ?? null;
}

export function readConsole(folder: string): ConsoleFiles {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)));
  const known = new Set(names);
  const bytesOf = (name: string) => (known.has(name) ? readFileSync(path.join(folder, name)) : null);
  return new Map(
    names
      .filter((name) => Object.hasOwn(types, path.extname(name)))
      .map((name) => {
        const plain = readFileSync(path.join(folder, name));
        const file = {
          type: types[path.extname(name)] as string,
          etag: `"${createHash('sha256').update(plain).digest('base64url').slice(0, 27)}"`,
          plain,
          br: bytesOf(`${name}.br`),
          gzip: bytesOf(`${name}.gz`),
        };
        return [name.split(path.sep).join('/'), file];
      }),
  );
}
