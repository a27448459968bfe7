import { describe, expect, it } from 'vitest';
import { type Entry, judge, type Origin } from './origin.ts';
import { prepare } from './statements.ts';

const origin: Origin = {
  mainOwner: 'ada',
  owners: new Set(['ada', 'Bob B', 'authenticated', 'supabase_admin']),
  isRowhouse: false,
  isSupabase: false,
  expects: null,
};
const prepared = (text: string) => {
  const result = prepare(text, origin, 'p_new');
  return 'run' in result ? result.run : result.skip;
};

describe('a statement', () => {
  it.each([
    ['SET SESSION AUTHORIZATION ada;', null],
    ['RESET SESSION AUTHORIZATION;', null],
    ['SET ROLE postgres;', null],
    ['SET default_tablespace = fast;', null],
    ["SET default_tablespace = '';", "SET default_tablespace = '';"],
    ['SET row_security = off;', 'SET row_security = off;'],
    ['ALTER TABLE public.t OWNER TO ada;', null],
    ['ALTER FUNCTION public.f("OWNER TO" int) OWNER TO "Bob B";', null],
    [
      "ALTER TABLE t ALTER c SET DEFAULT 'x OWNER TO y';",
      "ALTER TABLE t ALTER c SET DEFAULT 'x OWNER TO y';",
    ],
    ['ALTER TABLE public.t DISABLE TRIGGER ALL;', 'ALTER TABLE public.t DISABLE TRIGGER user;'],
    ['ALTER TABLE public.t ENABLE TRIGGER "all";', 'ALTER TABLE public.t ENABLE TRIGGER "all";'],
    ['GRANT SELECT ON TABLE t TO ada;', 'GRANT SELECT ON TABLE t TO "p_new";'],
    [
      'GRANT SELECT ON TABLE "to" TO "Bob B" WITH GRANT OPTION;',
      'GRANT SELECT ON TABLE "to" TO "p_new" WITH GRANT OPTION;',
    ],
    ['GRANT ALL ON TABLE t TO authenticated;', 'GRANT ALL ON TABLE t TO "authenticated";'],
    ['GRANT ALL ON TABLE t TO PUBLIC;', 'GRANT ALL ON TABLE t TO public;'],
    ['GRANT ALL ON TABLE t TO p_other;', 'The role "p_other" does not exist here.'],
    ['GRANT ALL ON TABLE t TO "public";', 'The role "public" does not exist here.'],
    ['REVOKE ALL ON FUNCTION f(a int) FROM PUBLIC;', 'REVOKE ALL ON FUNCTION f(a int) FROM public;'],
    ['REVOKE ALL ON TABLE t FROM postgres;', 'The role "postgres" does not exist here.'],
    [
      'ALTER DEFAULT PRIVILEGES FOR ROLE ada IN SCHEMA public GRANT SELECT ON TABLES TO anon;',
      'ALTER DEFAULT PRIVILEGES FOR ROLE "p_new" IN SCHEMA public GRANT SELECT ON TABLES TO "anon";',
    ],
    [
      'ALTER DEFAULT PRIVILEGES FOR ROLE ada REVOKE ALL ON FUNCTIONS FROM PUBLIC;',
      'ALTER DEFAULT PRIVILEGES FOR ROLE "p_new" REVOKE ALL ON FUNCTIONS FROM public;',
    ],
    [
      'ALTER DEFAULT PRIVILEGES FOR ROLE supabase_admin IN SCHEMA public GRANT ALL ON TABLES TO anon;',
      'The role "supabase_admin" does not exist here.',
    ],
    ['CREATE POLICY p ON t TO ada USING (true);', 'CREATE POLICY p ON t TO "p_new" USING (true);'],
    [
      'CREATE POLICY p ON t AS RESTRICTIVE TO nobody, authenticated USING ((a TO b));',
      'CREATE POLICY p ON t AS RESTRICTIVE TO "authenticated" USING ((a TO b));',
    ],
    ['CREATE POLICY p ON t FOR SELECT TO nobody USING (true);', 'The role "nobody" does not exist here.'],
    ['CREATE POLICY "to" ON t USING (true);', 'CREATE POLICY "to" ON t USING (true);'],
    ['CREATE TABLE t (a int);', 'CREATE TABLE t (a int);'],
  ])('%s', (text, expected) => {
    expect(prepared(text)).toBe(expected);
  });
});

it('with very many spaces is judged at once', () => {
  const spaces = ' '.repeat(985);
  const startedAt = performance.now();
  for (const text of [`set a =x${spaces}x`, `set a =${spaces}x`, `set a${spaces}x`, `set${spaces}a`])
    expect(prepared(text)).toBe(text);
  expect(performance.now() - startedAt).toBeLessThan(50);
});

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
