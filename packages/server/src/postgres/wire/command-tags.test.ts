import { expect, it } from 'vitest';
import { mayChangeDefinitions } from './command-tags.ts';

it.each(['INSERT 0 5', 'UPDATE 3', 'DELETE 0', 'COPY 7', 'COMMIT', 'SET', 'VACUUM', 'TRUNCATE TABLE'])(
  '%s leaves all definitions as they are',
  (tag) => {
    expect(mayChangeDefinitions(tag)).toBe(false);
  },
);

// The second row: what CREATE TABLE AS, SELECT INTO and CREATE MATERIALIZED VIEW report, and EXPLAIN ANALYZE of them.
it.each([
  ...['CREATE TABLE', 'ALTER TABLE', 'DROP VIEW', 'DO', 'CALL'],
  ...['SELECT 5', 'SELECT 0', 'CREATE TABLE AS', 'CREATE MATERIALIZED VIEW', 'EXPLAIN'],
  ...['', 'A COMMAND THAT IS NOT KNOWN YET', 'INSERT INTO'],
])('%j may change some', (tag) => {
  expect(mayChangeDefinitions(tag)).toBe(true);
});
