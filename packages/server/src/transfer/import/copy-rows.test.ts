import { expect, it } from 'vitest';
import { CopyRows } from './copy-rows.ts';

async function held(copy: string, rows: string, size: number) {
  const found = new CopyRows(copy);
  async function* pieces() {
    const bytes = Buffer.from(rows);
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  }
  let passed = '';
  for await (const piece of found.counted(pieces())) passed += piece.toString('latin1');
  expect(passed).toBe(rows);
  return found.held;
}

const plain = 'COPY public.a (b, c) FROM stdin;';
it.each([
  [plain, '', 0],
  [plain, '1\t2\n', 1],
  [plain, '1\t2\n3\t4', 2],
  [plain, '\n\n', 2],
  [plain, '1\\\n2\t3\n', 1],
  [plain, '1\\\\\n2\\\\\\\n3\\\\\\\\\n', 2],
  [plain, '"\n"\n', 2],
  ['copy a from stdin with (freeze) where b <> $$csv, format binary$$;', '1\n2\n', 2],
  ['COPY a FROM stdin (FORMAT text, HEADER)', 'a\n1\n', 1],
  ['COPY a FROM stdin WITH (FORMAT csv, HEADER match)', 'a\n1\n2\n', 2],
  ['COPY a FROM stdin WITH (FORMAT csv, HEADER false)', '1\n2\n', 2],
  ['COPY a FROM stdin WITH (HEADER, FORMAT CSV)', 'a\n', 0],
  ['COPY a FROM stdin CSV', '"1\n""\n",2\r\n3,4\r\n', 2],
  [`COPY a FROM stdin WITH (FORMAT csv, QUOTE '''', ON_ERROR ignore)`, "'1\n\"',2\n3,4\n", 2],
  [`COPY a FROM stdin CSV QUOTE AS '|' ESCAPE '\\'`, '|1\n\\|\n|,2\n3,4\n', 2],
  [`COPY a FROM stdin CSV ESCAPE E'\\\\'`, '"1\\\\"\n"\\"\n"\n', 2],
  [`COPY a FROM stdin WITH (FORMAT 'csv')`, '1\n', null],
  ['COPY a FROM stdin WITH (FORMAT binary)', 'PGCOPY\n', null],
  ['COPY BINARY a FROM stdin;', 'PGCOPY\n', null],
])('%s of %j', async (copy, rows, count) => {
  for (const size of [1, 2, 3, 1_000]) expect(await held(copy, rows, size)).toBe(count);
});
