// Which statements provably leave nothing in a session, so that no reset has to follow them. The parser shows that a
// statement calls no function of the project's own; the catalog shows that its tables hide none (views, triggers, row
// security, rules, defaults, operators). Until that is known, and again every few seconds, the reset is done.
import { LRUCache } from 'lru-cache';
import type { ProjectLogin } from '../engine/provision.ts';
import type { Session } from '../postgres/session.ts';
import { queryOne } from './query-one.ts';
import type { Statement } from './statement.ts';

export type PlainStatements = {
  /** Known to be plain now. If that is not known, it is found out behind the caller's back. */
  isPlain(project: ProjectLogin, text: string, statement: Statement): boolean;
};

type Aside = <T>(project: ProjectLogin, use: (session: Session) => Promise<T>) => Promise<T>;

const trustedMs = 10_000;

/**
 * Tables without views, rules, row security, virtual columns, triggers, or defaults, checks and generated columns that
 * call anything of the project's own; and no operators of its own in the whole database.
 */
const question = `
  select (not exists (select from pg_catalog.pg_operator where oid operator(pg_catalog.>=) 16384)
    and not exists (
      select from pg_catalog.unnest($1::pg_catalog.text[]) as named (name)
      join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) pg_catalog.to_regclass(named.name)
      where class.relkind not in ('r', 'p', 'm') or class.relrowsecurity or class.relhasrules
        or exists (select from pg_catalog.pg_trigger where tgrelid operator(pg_catalog.=) class.oid and not tgisinternal)
        or exists (select from pg_catalog.pg_attribute where attrelid operator(pg_catalog.=) class.oid and attgenerated operator(pg_catalog.=) 'v')
        or exists (
          select from pg_catalog.pg_attrdef where adrelid operator(pg_catalog.=) class.oid
            and pg_catalog.pg_get_expr(adbin, adrelid) operator(pg_catalog.!~) '^(nextval\\(|now\\(\\)$|CURRENT_|gen_random_uuid\\(\\)$|uuidv[47]\\(\\)$|''[^'']*''::|[-0-9.]+$|true$|false$|NULL)'
        )
        or exists (select from pg_catalog.pg_constraint where conrelid operator(pg_catalog.=) class.oid and contype operator(pg_catalog.=) 'c')
    ))::pg_catalog.text`;

export function watchPlainStatements(aside: Aside): PlainStatements {
  const known = new LRUCache<string, { plain: boolean; since: number }>({ max: 20_000 });
  const asking = new Set<string>();
  return {
    isPlain: (project, text, { relations, conduct }) => {
      if (relations === null || conduct === 'wild') return false;
      if (relations.length === 0) return true;
      const key = `${project.id} ${text}`;
      const answer = known.get(key);
      const isFresh = answer !== undefined && performance.now() - answer.since < trustedMs;
      if (!isFresh && !asking.has(key)) {
        asking.add(key);
        const since = performance.now();
        const list = `{${relations.map((name) => `"${name.replace(/["\\]/g, '\\$&')}"`).join(',')}}`;
        aside(project, (session) => queryOne(session, question, [list]))
          .then((plain) => void known.set(key, { plain: plain === 'true', since }))
          .catch(() => {})
          .finally(() => asking.delete(key));
      }
      return isFresh && answer.plain;
    },
  };
}
