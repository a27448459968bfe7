// Every function and every form of the grammar, with large inputs: what a project may execute ends when it is cancelled, or else
// when its process is interrupted as servers/guards/survivors.ts does it.
import pg from 'pg';
import { expect, it } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { roleOf } from '../../src/servers/databases/names.ts';
import { interruptBackend } from '../../src/servers/embedded/server-processes.ts';
import { derivePassword } from '../../src/servers/role-passwords.ts';
import { asAdmin } from '../support/helpers.ts';
import { useOwnPostgres } from '../support/own-postgres.ts';
import { findUninterruptible } from './uninterruptible.ts';

const own = useOwnPostgres();

it('what goes on after a cancel ends when its process is interrupted', { timeout: 400_000 }, async () => {
  const { rowhouse, engine } = own;
  const project = await rowhouse.project('Searched');
  const user = roleOf(project.id);
  const password = derivePassword(rowhouse.service.deps.masterKey, user);
  const { host, port } = engine.address;
  const open = async () => {
    const client = new pg.Client({ host, port, user, password, database: user });
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  const setup = await open();
  for (const extension of extensions)
    await setup.query(`create extension if not exists "${extension}" cascade`).catch(() => {});
  await setup.end();
  const startedAt = () =>
    asAdmin((admin) => admin.query(sql`select pg_postmaster_start_time()::text as at`), engine.address);
  const before = await startedAt();
  const { interrupted, unstoppable, calls, left } = await findUninterruptible(
    open,
    interruptBackend,
    240_000,
  );
  console.log(`${calls} calls, ${left} left out; interrupted: ${interrupted.join(', ')}`);
  expect(unstoppable).toEqual([]);
  // The search finds what is known.
  expect(interrupted).toEqual(
    expect.arrayContaining([
      'xmltable',
      'like one',
      'position bytea',
      'xpath(text,xml)',
      'path_distance(path,path)',
    ]),
  );
  expect(await startedAt()).toEqual(before);
});

const extensions = [
  'btree_gin',
  'btree_gist',
  'citext',
  'cube',
  'dict_int',
  'earthdistance',
  'fuzzystrmatch',
  'hstore',
  'intarray',
  'isn',
  'lo',
  'ltree',
  'pg_trgm',
  'pgcrypto',
  'seg',
  'tablefunc',
  'unaccent',
  'uuid-ossp',
  'vector',
];
