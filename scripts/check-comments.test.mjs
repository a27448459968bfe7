import { expect, it } from 'vitest';
import { problemsOf } from './check-comments.mjs';

/** Not written out, because the check also reads this file. */
const of = 'Of';
const lines = (file, ...text) => problemsOf(file, text.join('\n')).map((problem) => problem.split(':')[1]);

it('refuses comments that begin with "Of", and names their lines', () => {
  expect(lines('a.ts', 'const a = 1;', '/** Of all these. */', `const b = 2; // ${of} a.`)).toEqual([
    '2',
    '3',
  ]);
  expect(lines('a.tsx', '/**', ' * Of all these.', ' */')).toEqual(['1']);
  expect(lines('a.css', '/* Of a table. */')).toEqual(['1']);
  expect(lines('a.py', 'x = 1', '# Of x.')).toEqual(['2']);
  expect(lines('a.sql', 'create table a (', '  -- Of a project.', '  id int')).toEqual(['2']);
  expect(lines('a.ts', '// A comment.', 'f();', `  // ${of} f.`)).toEqual(['3']);
});

it('accepts "Of" inside a comment, in other words, and in texts', () => {
  expect(lines('a.ts', '// The size', '// Of a table is in bytes.', '// Often.', '/** Offset. */')).toEqual(
    [],
  );
  expect(lines('a.ts', "const a = '// Of a text.';", 'const b = "https:// Of";')).toEqual([]);
  expect(lines('a.py', '# The size', '# Of a table.')).toEqual([]);
  expect(lines('a.md', '# Of tables')).toEqual([]);
});

it('leaves migrations alone, which never change', () => {
  expect(lines('packages/server/migrations/control/0001_first.sql', '-- Of a key.')).toEqual([]);
});
