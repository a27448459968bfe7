import { expect, it } from 'vitest';
import { hintFor } from './engine-error.ts';

it.each([
  ['FATAL:  could not write lock file "postmaster.pid": No space left on device', 'disk is full'],
  ['LOG:  could not bind IPv4 address "127.0.0.1": Address already in use', 'took the port'],
  ['FATAL:  could not open directory "pg_wal": Permission denied', 'has no access to the data folder'],
  ['DETAIL:  The data directory was initialized by … not incompatible with server', 'another major version'],
  ['FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use', 'still uses the data folder'],
  ['FATAL:  could not map anonymous shared memory: Cannot allocate memory', 'too little free memory'],
  ['PANIC:  could not locate a valid checkpoint record', 'Restore a backup'],
])('%s', (line, words) => {
  expect(hintFor(['LOG:  starting PostgreSQL', line])).toContain(words);
});

it('gives no hint for an unknown message', () => {
  expect(hintFor(['FATAL:  the moon is full'])).toBeUndefined();
});
