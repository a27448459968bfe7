import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { root } from '../../test/support/toolchains.ts';
import { sql } from '../postgres/sql.ts';
import { locks } from './lock-names.ts';

it('is the only file that takes advisory locks', () => {
  const folder = path.join(root, 'packages', 'server', 'src');
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (file) => file.endsWith('.ts') && !file.endsWith('.test.ts'),
  );
  const calling = files.filter((file) =>
    /pg_(try_)?advisory_|locktype = 'advisory'/.test(readFileSync(path.join(folder, file), 'utf8')),
  );
  expect(calling.map((file) => file.split(path.sep).join('/'))).toEqual(['control/lock-names.ts']);
});

it('names each lock differently, and each thing that it guards', () => {
  const all = [
    ...[locks.control, locks.migrations, locks.template, locks.account, locks.process, locks.keeper],
    ...[
      locks.restore,
      locks.backup({ id: 1, holdsControl: true }),
      locks.backup({ id: 2, holdsControl: false }),
    ],
    ...[locks.runner(sql`7`), locks.branches(7), locks.export('a'), locks.move('a'), locks.swap('a')],
    ...[locks.savedQueries('a')],
  ];
  expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
  expect(Object.keys(locks)).toHaveLength(all.length - 1);
  expect(locks.move('a').key.values).not.toEqual(locks.move('b').key.values);
});
