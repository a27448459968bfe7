import { expect, it } from 'vitest';
import { catchesErrors } from './do-block.ts';

it.each([
  ['DO $$ begin insert into a values (1); end $$;', false],
  ["do $$ begin raise exception 'no'; end $$;", false],
  ['DO $$ begin insert into a values (1); exception when others then null; end $$;', true],
  ["do language plpgsql 'begin insert into a values (1);\nEXCEPTION\nWHEN OTHERS THEN end';", true],
  ['DO $$ BEGIN\n CREATE TYPE a AS ENUM (1);\nEXCEPTION\n WHEN duplicate_object THEN null;\nEND $$;', false],
  [
    'DO $x$ BEGIN ALTER TABLE a ADD CONSTRAINT b CHECK (true); EXCEPTION WHEN duplicate_object OR duplicate_table THEN NULL; END; $x$',
    false,
  ],
  [
    'DO $$ BEGIN CREATE TYPE a AS ENUM (); INSERT INTO b VALUES (1); EXCEPTION WHEN duplicate_object THEN null; END $$;',
    true,
  ],
  [
    'DO $$ BEGIN INSERT INTO a VALUES (1); EXCEPTION WHEN duplicate_object THEN null; WHEN others THEN null; END $$;',
    true,
  ],
])('%s', (text, expected) => {
  expect(catchesErrors(text)).toBe(expected);
});

it('takes no longer than its length', () => {
  const hostile = [
    `do $$ begin${' '.repeat(3_900)}`,
    `do ${' '.repeat(1e6)}`,
    `exception${' raise'.repeat(1e5)}`,
  ];
  const startedAt = performance.now();
  for (const text of hostile) catchesErrors(text);
  expect(performance.now() - startedAt).toBeLessThan(2_000);
});
