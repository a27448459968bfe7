import { expect, it } from 'vitest';
import { objectsOf } from './table-objects.ts';

const at = (name: string, table = 'teas', schema = 'public') => ({ schema, table, name });
const index = { unique: true, primary: false, valid: true, size_bytes: 0, definition: 'an index' };
const constraint = { valid: true, definition: 'a constraint' };

it('offers what can be dropped by its name: no index of a constraint, no NOT NULL, and nothing of other tables', () => {
  const parts = {
    indexes: [
      { ...index, ...at('teas_pkey') },
      { ...index, ...at('by_name') },
      { ...index, ...at('by_name', 'teas', 'other') },
      { ...index, ...at('by_size', 'cups') },
    ],
    constraints: [
      { ...constraint, ...at('teas_pkey'), kind: 'primary_key' as const },
      { ...constraint, ...at('teas_id_not_null'), kind: 'not_null' as const },
      { ...constraint, ...at('checked'), kind: 'check' as const },
      // A check does not have an index, whatever its name.
      { ...constraint, ...at('by_name'), kind: 'check' as const },
    ],
    policies: [
      {
        ...at('own'),
        command: 'select' as const,
        permissive: true,
        roles: ['anon'],
        using: null,
        check: null,
      },
    ],
  };
  const names = (kind: 'index' | 'constraint' | 'policy') =>
    objectsOf(parts, kind, { schema: 'public', name: 'teas' }).map(({ name }) => name);
  expect(names('index')).toEqual(['by_name']);
  expect(names('constraint')).toEqual(['teas_pkey', 'checked', 'by_name']);
  expect(names('policy')).toEqual(['own']);
});
