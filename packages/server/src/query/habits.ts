// What is known of a project's statements from earlier runs: whether they provably leave nothing in a session, so that no
// reset has to follow them, and whether they are short. The parser shows that a statement calls nothing but harmless names;
// the catalog shows that none of these names is a function of the project's own, and that its tables and types hide none
// (views, triggers, row security, rules, defaults, indexes, operators, casts, domains). Until that is known, and again
// every few seconds, the reset is done.
import { LRUCache } from 'lru-cache';
import type { Session } from '../postgres/session.ts';
import { toArrayText } from './parameters.ts';
import { queryOne } from './query-one.ts';
import type { Statement } from './statement.ts';

export type Habit = {
  readonly statement: Statement;
  readonly house: House;
  isPlain: boolean;
  knownSince: number;
  askedAt: number;
  /** How long it usually takes, the last runs counting most. Infinity: it has not run yet. */
  usualMs: number;
};
/** A project's statements; `changes` counts what may have made another of the tables. */
type House = { habits: Map<Statement, Habit>; changes: number };

export type Habits = {
  of(projectId: string, statement: Statement): Habit;
  /** Something ran that may have changed what tables are. */
  forget(projectId: string): void;
};

const trustedMs = 10_000;
const askAgainMs = 1_000;
const perProject = 500;

/**
 * Tables, with their partitions, without views, rules, row security, virtual columns, triggers, or defaults, checks,
 * indexes and generated columns that call anything; no function of the project's own under a name that the statement
 * calls (an overload is found before the built-in one, and `row.name` is a call too); and no operators, casts or
 * checked domains of its own in the whole database, for those need no name.
 */
const question = `
  select (not exists (select from pg_catalog.pg_operator where oid operator(pg_catalog.>=) 16384)
    and not exists (select from pg_catalog.pg_cast where oid operator(pg_catalog.>=) 16384)
    and not exists (
      select from pg_catalog.pg_constraint
      where contypid operator(pg_catalog.>=) 16384 and contype operator(pg_catalog.=) 'c'
    )
    and not exists (
      select from pg_catalog.pg_proc
      where proname operator(pg_catalog.=) any ($2::pg_catalog.name[]) and oid operator(pg_catalog.>=) 16384
    )
    and not exists (
      with recursive part (oid) as (
        select pg_catalog.to_regclass(name)::pg_catalog.oid from pg_catalog.unnest($1::pg_catalog.text[]) as named (name)
        union
        select inhrelid from part join pg_catalog.pg_inherits on inhparent operator(pg_catalog.=) part.oid
      )
      select from part
      join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) part.oid
      where class.relkind not in ('r', 'p', 'm') or class.relrowsecurity or class.relhasrules
        or exists (select from pg_catalog.pg_trigger where tgrelid operator(pg_catalog.=) class.oid and not tgisinternal)
        or exists (select from pg_catalog.pg_attribute where attrelid operator(pg_catalog.=) class.oid and attgenerated operator(pg_catalog.=) 'v')
        or exists (
          select from pg_catalog.pg_index where indrelid operator(pg_catalog.=) class.oid and (indexprs is not null or indpred is not null)
        )
        or exists (select from pg_catalog.pg_partitioned_table where partrelid operator(pg_catalog.=) class.oid and partexprs is not null)
        or exists (
          select from pg_catalog.pg_attrdef where adrelid operator(pg_catalog.=) class.oid
            and pg_catalog.pg_get_expr(adbin, adrelid) operator(pg_catalog.!~) '^(nextval\\(''[^'']*''::regclass\\)$|now\\(\\)$|CURRENT_|gen_random_uuid\\(\\)$|uuidv[47]\\(\\)$|''[^'']*''::|[-0-9.]+$|true$|false$|NULL)'
        )
        or exists (select from pg_catalog.pg_constraint where conrelid operator(pg_catalog.=) class.oid and contype operator(pg_catalog.=) 'c')
    ))::pg_catalog.text`;

export function rememberHabits(): Habits {
  const houses = new LRUCache<string, House>({ max: 5_000 });
  const houseOf = (projectId: string): House => {
    const known = houses.get(projectId);
    if (known) return known;
    const house = { habits: new Map(), changes: 0 };
    houses.set(projectId, house);
    return house;
  };
  return {
    of: (projectId, statement) => {
      const house = houseOf(projectId);
      const known = house.habits.get(statement);
      if (known) return known;
      const habit: Habit = {
        ...{ statement, house, isPlain: false, knownSince: Number.NEGATIVE_INFINITY },
        ...{ askedAt: Number.NEGATIVE_INFINITY, usualMs: Number.POSITIVE_INFINITY },
      };
      house.habits.set(statement, habit);
      if (house.habits.size > perProject) {
        const [oldest] = house.habits.keys();
        if (oldest) house.habits.delete(oldest);
      }
      return habit;
    },
    forget: (projectId) => {
      const house = houses.get(projectId);
      if (!house) return;
      house.changes++;
      for (const habit of house.habits.values()) habit.knownSince = Number.NEGATIVE_INFINITY;
    },
  };
}

/** Known to leave nothing in a session, now. */
export function isPlain({ statement, isPlain, knownSince }: Habit): boolean {
  if (statement.relations === null || statement.conduct === 'wild') return false;
  return isPlain && performance.now() - knownSince < trustedMs;
}

/** If it is not known, it is asked behind what runs in the session, and nobody waits for the answer. */
export function learn(habit: Habit, session: Session): void {
  const { relations, calls, conduct } = habit.statement;
  if (relations === null || conduct === 'wild') return;
  const now = performance.now();
  // A little before the end, so that a busy statement never falls back.
  if (now - habit.knownSince < trustedMs * 0.8 || now - habit.askedAt < askAgainMs) return;
  habit.askedAt = now;
  const { house } = habit;
  const { changes } = house;
  queryOne(session, question, [toArrayText(relations), toArrayText(calls)]).then(
    (answer) => {
      // What changed meanwhile may be what was looked at.
      if (house.changes !== changes) return;
      habit.isPlain = answer === 'true';
      habit.knownSince = now;
    },
    () => {},
  );
}

export function noteDuration(habit: Habit, ms: number): void {
  habit.usualMs = habit.usualMs === Number.POSITIVE_INFINITY ? ms : habit.usualMs * 0.75 + ms * 0.25;
}
