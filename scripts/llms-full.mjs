// Writes llms-full.txt: every page that llms.txt names, in its order, for agents. The tool search_docs of `/mcp` searches
// it, so it stands in the folder that the packages and the image of the service contain. It is not committed: it would
// change with every page.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** Does nothing if the file is up to date: who starts the service may have no right to write here. */
export function writeLlmsFull(root) {
  const file = path.join(root, 'packages', 'server', 'data', 'llms-full.txt');
  const text = allPages(root);
  if (!existsSync(file) || readFileSync(file, 'utf8') !== text) writeFileSync(file, text);
}

function allPages(root) {
  const read = (file) => readFileSync(path.join(root, file), 'utf8');
  const index = read('llms.txt');
  const names = [...index.matchAll(/\]\(([\w/-]+\.md)\)/g)].map(([, name]) => name);
  return `${index.split('\n## ')[0].trimEnd()}\n\n${[...new Set(names)]
    .map((name) => `<!-- ${name} -->\n${read(name).trimEnd()}\n`)
    .join('\n')}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeLlmsFull(fileURLToPath(new URL('..', import.meta.url)));
}
