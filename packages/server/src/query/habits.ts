// What is known of a project's statements from earlier runs: whether they provably leave nothing in a session, so that no
// reset has to follow them, and whether they are short. The parser shows that a statement calls nothing but harmless names;
// the catalog shows that none of these names is a function of the project's own, and that its tables and types hide none
// (views, triggers, row security, rules, defaults, indexes, operators, casts, domains). Until that is known the reset is
// done; it is asked again every few seconds.
import { LRUCache } from 'lru-cache';
import type { Session } from '../postgres/session.ts';
import { harmlessFunctions } from './harmless-functions.ts';
import { toArrayText } from './parameters.ts';
import { queryOne } from './query-one.ts';
import type { Statement } from './statement.ts';

export type Habit = {
  readonly statement: Statement;
  readonly project: ProjectHabits;
  /** What the catalog said, or is presumed to say; for how long that is trusted; from when on it is asked again. */
  wasPlain: boolean;
  trustedUntil: number;
  askFrom: number;
  asking: Promise<void> | null;
  /** How long it usually takes, the last runs counting most. Infinity: it has not run yet. */
  usualMs: number;
  /** How long it took with others in one transaction, its part of the commit included. Infinity: it has not been yet. */
  sharedMs: number;
};
/** A project's statements; `changes` counts what may have made another of the tables. */
type ProjectHabits = {
  habits: Map<Statement, Habit>;
  changes: number;
  /** As far as is known, there is code of the project's own, so that it has to be looked at more closely. */
  hasCode: boolean;
  trustedMs: () => number;
};

export type Habits = {
  of(projectId: string, statement: Statement): Habit;
  /** Something ran that may have changed what tables are: by its own words, or by code of the project's. */
  forget(projectId: string, by: 'schema' | 'code'): void;
};

/**
 * To ask takes PostgreSQL milliseconds. With hundreds of projects at work it is asked more seldom, so that it takes no more
 * than a tenth of a core for all of them together.
 */
const [trustedAtLeastMs, trustedAtMostMs, eachMs] = [10_000, 60_000, 10];
const askAgainMs = 1_000;
const perProject = 500;

/**
 * Whether a statement that names these tables ($1) and may call functions of these names ($2) runs no code of the
 * project's own. Code can hide in tables (views, rules, row security, triggers, partitions, virtual columns; defaults,
 * checks and index expressions that call something) and everywhere else: a cast, an operator, a domain's check, a
 * function with a built-in one's name, a function of a row, which can be written like a column. Languages 12 and 13 are
 * internal and C, in which projects cannot write. An expression is looked at as PostgreSQL keeps it, by oid.
 */
const wholeQuestion = `
  with named (oid) as (
    select pg_catalog.to_regclass(name)::pg_catalog.oid from pg_catalog.unnest($1::pg_catalog.text[]) as given (name)
  ), own (oid, name) as (
    select function.oid, function.proname::pg_catalog.text from pg_catalog.pg_proc as function
    where function.oid operator(pg_catalog.>=) 16384 and (function.prolang not in (12, 13) or exists (
      select from pg_catalog.pg_aggregate as aggregate
      join pg_catalog.pg_proc as part on part.oid in (aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn,
                                                      aggmtransfn, aggminvtransfn, aggmfinalfn)
      where aggfnoid::pg_catalog.oid operator(pg_catalog.=) function.oid and part.prolang not in (12, 13)))
  ), hidden (expression) as (
    select adbin::pg_catalog.text from pg_catalog.pg_attrdef join named on named.oid operator(pg_catalog.=) adrelid
    union all
    select conbin::pg_catalog.text from pg_catalog.pg_constraint
    where conbin is not null
      and (contypid operator(pg_catalog.<>) 0 or exists (select from named where named.oid operator(pg_catalog.=) conrelid))
    union all
    select pg_catalog.concat(indexprs::pg_catalog.text, indpred::pg_catalog.text)
    from pg_catalog.pg_index join named on named.oid operator(pg_catalog.=) indrelid
  ), called (kind, oid) as (
    select found[1], found[2]::pg_catalog.oid
    from hidden, pg_catalog.regexp_matches(expression, ':(funcid|opfuncid) ([0-9]+)', 'g') as found
  )
  select (
    not exists (
      select from called left join pg_catalog.pg_proc as function on function.oid operator(pg_catalog.=) called.oid
      where called.oid operator(pg_catalog.>=) 16384
        or called.kind operator(pg_catalog.=) 'funcid'
          and function.proname operator(pg_catalog.<>) 'nextval'
          -- An int out of a sequence, which counts in bigint.
          and not exists (select from pg_catalog.pg_cast where castfunc operator(pg_catalog.=) called.oid)
          and not function.proname::pg_catalog.text operator(pg_catalog.=) any ($3::pg_catalog.text[])
    )
    and not exists (
      select from own
      where own.name operator(pg_catalog.=) any ($2::pg_catalog.text[])
        or exists (select from pg_catalog.pg_operator where oprcode::pg_catalog.oid operator(pg_catalog.=) own.oid)
        or exists (select from pg_catalog.pg_cast where castfunc operator(pg_catalog.=) own.oid)
    )
    and not exists (
      select from named join pg_catalog.pg_class as class on class.oid operator(pg_catalog.=) named.oid
      where class.relkind not in ('r', 'm') or class.relrowsecurity or class.relhasrules or class.relhassubclass
        or exists (select from pg_catalog.pg_trigger where tgrelid operator(pg_catalog.=) class.oid and not tgisinternal)
        or exists (select from pg_catalog.pg_attribute where attrelid operator(pg_catalog.=) class.oid and attgenerated operator(pg_catalog.=) 'v')
    ))::pg_catalog.text`;

/**
 * The same for what only reads, in a project that has no code at all, which most have not: without a function but ours
 * nothing of the above can call one, and what a read meets besides are tables and domains. It takes a quarter of the time,
 * and leaves a quarter of the memory behind in the session. `code`: the whole is to be asked.
 */
const quickQuestion = `
  select case
    when exists (
      select from pg_catalog.pg_proc as function
      where function.oid operator(pg_catalog.>=) 16384 and prolang not in (12, 13)
        and (proname::pg_catalog.text operator(pg_catalog.=) any ($2::pg_catalog.text[])
          or not exists (
            select from pg_catalog.pg_namespace as schema
            where schema.oid operator(pg_catalog.=) pronamespace and nspname in ('rowhouse', 'auth')
              and pg_catalog.pg_get_userbyid(nspowner) operator(pg_catalog.<>) current_user))
    ) or exists (
      select from pg_catalog.pg_constraint
      where contypid operator(pg_catalog.>) 0 and oid operator(pg_catalog.>=) 16384
    ) then 'code'
    else (not exists (
      select from pg_catalog.unnest($1::pg_catalog.text[]) as given (name)
      join pg_catalog.pg_class as class
        on class.oid operator(pg_catalog.=) pg_catalog.to_regclass(given.name)::pg_catalog.oid
      where class.relkind not in ('r', 'm') or class.relrowsecurity or class.relhasrules or class.relhassubclass
    ))::pg_catalog.text
  end`;

const harmlessList = `{${[...harmlessFunctions].join(',')}}`;

/** `countSessions`: how many are open, which tells how many projects are at work. */
export function rememberHabits(countSessions: () => number): Habits {
  const trustedMs = () => Math.min(trustedAtMostMs, Math.max(trustedAtLeastMs, countSessions() * eachMs));
  const projects = new LRUCache<string, ProjectHabits>({ max: 5_000 });
  const habitsOf = (projectId: string): ProjectHabits => {
    const known = projects.get(projectId);
    if (known) return known;
    const project = { habits: new Map(), changes: 0, hasCode: false, trustedMs };
    projects.set(projectId, project);
    return project;
  };
  return {
    of: (projectId, statement) => {
      const project = habitsOf(projectId);
      const known = project.habits.get(statement);
      if (known) return known;
      const habit: Habit = {
        ...{ statement, project, wasPlain: true, trustedUntil: Number.NEGATIVE_INFINITY },
        ...{ askFrom: Number.NEGATIVE_INFINITY, asking: null },
        ...{ usualMs: Number.POSITIVE_INFINITY, sharedMs: Number.POSITIVE_INFINITY },
      };
      project.habits.set(statement, habit);
      if (project.habits.size > perProject) {
        const [oldest] = project.habits.keys();
        if (oldest) project.habits.delete(oldest);
      }
      return habit;
    },
    forget: (projectId, by) => {
      const project = projects.get(projectId);
      if (!project) return;
      project.changes++;
      project.hasCode = false;
      const now = performance.now();
      for (const habit of project.habits.values()) {
        habit.trustedUntil = Number.NEGATIVE_INFINITY;
        // To ask costs less than a change of tables did, and more than an insert whose trigger may have made one.
        const from = by === 'schema' && habit.wasPlain ? now : now + askAgainMs;
        habit.askFrom = Math.min(habit.askFrom, from);
      }
    },
  };
}

/** Known to leave nothing in a session, now. */
export function isPlain({ statement, wasPlain, trustedUntil }: Habit): boolean {
  if (statement.isProven) return true;
  if (statement.relations === null || statement.conduct === 'wild') return false;
  return wasPlain && performance.now() < trustedUntil;
}

/** If it is not known, it is asked behind what runs in the session, and nobody waits for the answer. */
export function learn(habit: Habit, session: Session): void {
  void find(habit, session);
}

/** Until what there is to be known is known. */
export async function know(habit: Habit, session: Session): Promise<void> {
  await (habit.asking ?? find(habit, session));
}

function find(habit: Habit, session: Session): Promise<void> | null {
  const { relations, calls, conduct, isProven } = habit.statement;
  if (isProven || relations === null || conduct === 'wild') return null;
  const now = performance.now();
  if (now < habit.askFrom) return null;
  habit.askFrom = now + askAgainMs;
  const { project } = habit;
  const { changes } = project;
  const isQuick = habit.statement.isRead && !project.hasCode;
  const question = isQuick
    ? queryOne(session, quickQuestion, [toArrayText(relations), toArrayText(calls)])
    : queryOne(session, wholeQuestion, [toArrayText(relations), toArrayText(calls), harmlessList]);
  const asking = question.then(
    (answer) => {
      habit.asking = null;
      if (answer === 'false') habit.wasPlain = false;
      // What changed meanwhile may be what was looked at.
      if (project.changes !== changes) return;
      if (answer === 'code') {
        project.hasCode = true;
        habit.askFrom = now;
        return;
      }
      habit.wasPlain = answer === 'true';
      const trustedMs = project.trustedMs();
      habit.trustedUntil = now + trustedMs;
      // A little before the end, so that a busy statement never falls back.
      habit.askFrom = now + trustedMs * 0.8;
    },
    () => {
      habit.asking = null;
      habit.wasPlain = false;
    },
  );
  habit.asking = asking;
  return asking;
}

export function noteDuration(habit: Habit, ms: number): void {
  habit.usualMs = habit.usualMs === Number.POSITIVE_INFINITY ? ms : habit.usualMs * 0.75 + ms * 0.25;
}
