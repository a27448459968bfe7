// Checks the wording of comments: none begins with "Of ". Such a comment has lost the noun that it is about ("/** Of all these. */")
// and cannot be understood without the code. Run as a program, it checks every file of the repository. Migrations are left out, because
// they never change once they are applied.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** What begins a comment, by the end of a file's name. */
const marks = {
  ts: '/',
  tsx: '/',
  mjs: '/',
  js: '/',
  css: '/',
  go: '/',
  rs: '/',
  py: '#',
  sh: '#',
  yaml: '#',
  yml: '#',
  sql: '-',
};
/** A line comment that continues the one above it does not begin there. A quote before the mark: it is text. */
const beginnings = {
  '/': /(?<!['"`])\/\*\*?\s*(?:\*\s)?\s*Of\s|(?<!^[ \t]*\/\/.*\n[ \t]*|['"`:])\/\/\s*Of\s/gm,
  '#': /(?<!^[ \t]*#.*\n[ \t]*|['"`])#\s*Of\s/gm,
  '-': /(?<!^[ \t]*--.*\n[ \t]*|['"`])--\s*Of\s/gm,
};

const skipped = new Set(['node_modules', 'dist', 'target', '__pycache__']);
const markOf = (file) => marks[file.split('.').at(-1)];

/** The comments of one file that begin with "Of ", given its path from the root and its text. */
export function problemsOf(file, text) {
  const mark = markOf(file);
  if (!mark || /(?:^|[\\/])migrations[\\/]/.test(file)) return [];
  return [...text.matchAll(beginnings[mark])].map(({ index }) => {
    const line = text.slice(0, index).split('\n').length;
    return `${file}:${line}: the comment begins with "Of" and does not name what it is about`;
  });
}

/** The files below a folder, without what is installed or built. */
function filesIn(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (entry.name.startsWith('.') || skipped.has(entry.name)) return [];
    const file = path.join(folder, entry.name);
    return entry.isDirectory() ? filesIn(file) : entry.isFile() && markOf(file) ? [file] : [];
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = fileURLToPath(new URL('..', import.meta.url));
  const files = filesIn(root).map((file) => path.relative(root, file));
  const problems = files.flatMap((file) => problemsOf(file, readFileSync(path.join(root, file), 'utf8')));
  for (const problem of problems) console.error(problem);
  console.log(`comments: ${files.length} files, ${problems.length} problems`);
  process.exit(problems.length > 0 || files.length === 0 ? 1 : 0);
}
