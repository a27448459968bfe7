import { describe, expect, it } from 'vitest';
import { judge } from './allowed-contents.ts';
import type { Entry, Origin } from './origin.ts';

const origin: Origin = {
  mainOwner: 'ada',
  owners: new Set(['ada']),
  isRowhouse: false,
  isSupabase: false,
  expects: null,
};

describe('an entry', () => {
  const judged = (entry: Partial<Entry>, more: Partial<Origin> = {}) => {
    const result = judge(
      { kind: 'TABLE', schema: 'public', name: 'x', owner: 'ada', ...entry },
      { ...origin, ...more },
    );
    return result.run ? 'runs' : (result.reason ?? 'nothing lost');
  };

  it.each<[Partial<Entry>, Partial<Origin>, string]>([
    [{}, {}, 'runs'],
    [{ schema: 'storage' }, {}, 'runs'],
    [{ schema: 'storage' }, { isSupabase: true }, "Supabase's own schema."],
    [{ kind: 'SCHEMA', schema: null, name: 'storage' }, { isSupabase: true }, "Supabase's own schema."],
    [{ kind: 'ACL', schema: null, name: 'SCHEMA vault' }, { isSupabase: true }, "Supabase's own schema."],
    [{ kind: 'SCHEMA', schema: null, name: 'extensions' }, { isSupabase: true }, 'runs'],
    [{ schema: 'auth' }, { isRowhouse: true }, 'nothing lost'],
    [
      { schema: 'auth' },
      {},
      'In every project, the schema auth belongs to Rowhouse. Rename the schema, then dump again.',
    ],
    [{ kind: 'DATABASE', schema: null, name: 'shop' }, {}, 'nothing lost'],
    [{ kind: 'ACL', schema: null, name: 'DATABASE shop' }, {}, 'nothing lost'],
    [{ kind: 'EXTENSION', schema: null, name: 'plpgsql' }, {}, 'nothing lost'],
    [{ kind: 'COMMENT', schema: null, name: 'EXTENSION plpgsql' }, {}, 'nothing lost'],
    [{ kind: 'EXTENSION', schema: null, name: 'hstore' }, {}, 'runs'],
    [{ kind: 'EVENT TRIGGER', schema: null, name: 'rowhouse_casts' }, { isRowhouse: true }, 'nothing lost'],
    [
      { kind: 'EVENT TRIGGER', schema: null, name: 'rowhouse_casts' },
      {},
      'Only a superuser can create event triggers.',
    ],
    [{ kind: 'STATISTICS DATA' }, {}, 'nothing lost'],
    [{ kind: 'SUBSCRIPTION', schema: null }, {}, 'Projects cannot have subscriptions.'],
  ])('%j of %j: %s', (entry, more, expected) => {
    expect(judged(entry, more)).toBe(expected);
  });
});
