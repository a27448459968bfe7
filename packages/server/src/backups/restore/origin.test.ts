import { expect, it } from 'vitest';
import { findVersion } from '../../servers/embedded/binaries.ts';
import { checkVersion, findVersionProblem } from './origin.ts';

it('backups of the major version of the embedded programs can be restored, and others name both versions', () => {
  const present = findVersion() ?? '';
  const major = Number(present.split('.')[0]);
  expect(findVersionProblem({ postgres: `${major}.0` })).toBeNull();
  expect(() => checkVersion({ postgres: `${major}.99` })).not.toThrow();
  for (const other of [`${major - 1}.4`, `${major + 1}.0`]) {
    const problem = findVersionProblem({ postgres: other });
    expect(problem).toContain(`PostgreSQL ${other}`);
    expect(problem).toContain(`PostgreSQL ${present}`);
    expect(() => checkVersion({ postgres: other })).toThrow('cannot be restored');
  }
});
