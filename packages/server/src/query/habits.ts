// What is known of a project's statements from earlier runs: whether they provably leave nothing in a session, so that no
// reset has to follow them, and whether they are short. The parser shows that a statement calls no function of the
// project's own; the catalog shows that its tables hide none (views, triggers, row security, rules, defaults, operators).
// Until that is known the reset is done; it is asked again every few seconds.
import { LRUCache } from 'lru-cache';
import type { Session } from '../postgres/session.ts';
import { queryOne } from './query-one.ts';
import type { Statement } from './statement.ts';

export type Habit = {
  readonly statement: Statement;
  readonly project: ProjectHabits;
  /** What the catalog said, and when. */
  wasPlain: boolean;
  knownSince: number;
  askedAt: number;
  /** How long it usually takes, the last runs counting most. Infinity: it has not run yet. */
  usualMs: number;
};
/** A project's statements; `changes` counts what may have made another of the tables. */
type ProjectHabits = { habits: Map<Statement, Habit>; changes: number };

export type Habits = {
  of(projectId: string, statement: Statement): Habit;
  /** Something ran that may have changed what tables are. */
  forget(projectId: string): void;
};

const trustedMs = 10_000;
const askAgainMs = 1_000;
const perProject = 500;

/**
 * Only tables: no views, rules, row security, virtual columns, triggers or checks, and of defaults and generated columns
 * only forms that call nothing of the project's own; and no operators of its own in the whole database.
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

export function rememberHabits(): Habits {
  const projects = new LRUCache<string, ProjectHabits>({ max: 5_000 });
  const habitsOf = (projectId: string): ProjectHabits => {
    const known = projects.get(projectId);
    if (known) return known;
    const project = { habits: new Map(), changes: 0 };
    projects.set(projectId, project);
    return project;
  };
  return {
    of: (projectId, statement) => {
      const project = habitsOf(projectId);
      const known = project.habits.get(statement);
      if (known) return known;
      const habit: Habit = {
        ...{ statement, project, wasPlain: false, knownSince: Number.NEGATIVE_INFINITY },
        ...{ askedAt: Number.NEGATIVE_INFINITY, usualMs: Number.POSITIVE_INFINITY },
      };
      project.habits.set(statement, habit);
      if (project.habits.size > perProject) {
        const [oldest] = project.habits.keys();
        if (oldest) project.habits.delete(oldest);
      }
      return habit;
    },
    forget: (projectId) => {
      const project = projects.get(projectId);
      if (!project) return;
      project.changes++;
      for (const habit of project.habits.values()) habit.knownSince = Number.NEGATIVE_INFINITY;
    },
  };
}

/** Known to leave nothing in a session, now. */
export function isPlain({ statement, wasPlain, knownSince }: Habit): boolean {
  if (statement.relations === null || statement.conduct === 'wild') return false;
  return statement.relations.length === 0 || (wasPlain && performance.now() - knownSince < trustedMs);
}

/** If it is not known, it is asked behind what runs in the session, and nobody waits for the answer. */
export function learn(habit: Habit, session: Session): void {
  const { relations, conduct } = habit.statement;
  if (relations === null || conduct === 'wild' || relations.length === 0) return;
  const now = performance.now();
  // A little before the end, so that a busy statement never falls back.
  if (now - habit.knownSince < trustedMs * 0.8 || now - habit.askedAt < askAgainMs) return;
  habit.askedAt = now;
  const { project } = habit;
  const { changes } = project;
  const list = `{${relations.map((name) => `"${name.replace(/["\\]/g, '\\$&')}"`).join(',')}}`;
  queryOne(session, question, [list]).then(
    (answer) => {
      // What changed meanwhile may be what was looked at.
      if (project.changes !== changes) return;
      habit.wasPlain = answer === 'true';
      habit.knownSince = now;
    },
    () => {},
  );
}

export function noteDuration(habit: Habit, ms: number): void {
  habit.usualMs = habit.usualMs === Number.POSITIVE_INFINITY ? ms : habit.usualMs * 0.75 + ms * 0.25;
}
