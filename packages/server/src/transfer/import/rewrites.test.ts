import { describe, expect, it } from 'vitest';
import type { Origin } from './origin.ts';
import { rewrite } from './rewrites.ts';

const origin: Origin = {
  mainOwner: 'ada',
  owners: new Set(['ada', 'Bob B', 'authenticated', 'supabase_admin']),
  isRowhouse: false,
  isSupabase: false,
  expects: null,
};
const rewritten = (text: string) => {
  const result = rewrite(text, origin, 'p_new');
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
    expect(rewritten(text)).toBe(expected);
  });
});

it('a statement with very many spaces is rewritten at once', () => {
  const spaces = ' '.repeat(985);
  const startedAt = performance.now();
  for (const text of [`set a =x${spaces}x`, `set a =${spaces}x`, `set a${spaces}x`, `set${spaces}a`])
    expect(rewritten(text)).toBe(text);
  expect(performance.now() - startedAt).toBeLessThan(50);
});
