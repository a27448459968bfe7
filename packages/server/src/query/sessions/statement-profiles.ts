// What is known of a project's statements from earlier runs: whether they provably run nothing but PostgreSQL's own
// harmless code, so that they leave nothing in a session and no reset has to follow them, and whether they are short. The
// parser says what a statement names (references.ts), the catalog what these names mean (reachable-code.ts). Until that is known the
// reset is done; it is asked again every few seconds. What turns out to be otherwise is never trusted again.
import { LRUCache } from 'lru-cache';
import { RowhouseError } from '../../errors.ts';
import type { Session } from '../../postgres/session.ts';
import { queryOne } from '../exchange/query-one.ts';
import { toArrayText } from '../json/array-text.ts';
import { quickQuestion, wholeQuestion } from '../statement/reachable-code.ts';
import type { Statement } from '../statement/statement.ts';

export type StatementProfile = {
  readonly statement: Statement;
  readonly project: ProjectHabits;
  /** What the catalog said, or is presumed to say; for how long that is trusted; from when on it is asked again. */
  wasPlain: boolean;
  trustedUntil: number;
  askFrom: number;
  asking: Promise<void> | null;
  hasRun: boolean;
  /** It did what it was taken not to do: it tried to write, or changed its session. */
  isDistrusted: boolean;
  /** How long it usually takes, the last runs counting most. Infinity: it has not run yet. */
  usualMs: number;
  /** How long it took with others in one transaction, its part of the commit included. Infinity: it has not been yet. */
  sharedMs: number;
};
/** A project's statements; `changes` counts what may have made another of the tables. */
type ProjectHabits = {
  profiles: Map<Statement, StatementProfile>;
  changes: number;
  /** As far as is known, there is code of the project's own, so that it has to be looked at more closely. */
  hasCode: boolean;
  /** Until then the project is known to have no function, operator or cast of its own: nothing can run code. */
  codelessUntil: number;
  /** Counts changes by statements that say so; those by code are among `changes` only. */
  schemaChanges: number;
  /** So many statements run that can change tables before they end. */
  changing: number;
  /** Until then nothing of it is taken for plain: a session that its statements shared was not as it should be. */
  suspectUntil: number;
  trustedMs: () => number;
};

export type StatementProfiles = {
  of(projectId: string, statement: Statement): StatementProfile;
  /** Something ran that may have changed what tables are: by its own words, or by code of the project's. */
  forget(projectId: string, by: 'schema' | 'code'): void;
  /** A statement runs that can change tables and commit before it ends. Gives what ends that. */
  beginChange(projectId: string): () => void;
  /** A statement that was taken for plain left something in a session, and nobody knows which. */
  suspect(projectId: string): void;
};

/**
 * To ask takes PostgreSQL milliseconds. With hundreds of projects at work it is asked more seldom, so that it takes no more
 * than a tenth of a core for all of them together.
 */
const [trustedAtLeastMs, trustedAtMostMs, eachMs] = [10_000, 60_000, 10];
const askAgainMs = 1_000;
const perProject = 500;
const suspectMs = 10 * 60_000;

/** `countSessions`: how many are open, which tells how many projects are at work. */
export function openStatementProfiles(countSessions: () => number): StatementProfiles {
  const trustedMs = () => Math.min(trustedAtMostMs, Math.max(trustedAtLeastMs, countSessions() * eachMs));
  const projects = new LRUCache<string, ProjectHabits>({ max: 5_000 });
  const habitsOf = (projectId: string): ProjectHabits => {
    const known = projects.get(projectId);
    if (known) return known;
    const never = Number.NEGATIVE_INFINITY;
    const project = {
      ...{ profiles: new Map(), changes: 0, schemaChanges: 0, changing: 0, hasCode: false, trustedMs },
      ...{ codelessUntil: never, suspectUntil: never },
    };
    projects.set(projectId, project);
    return project;
  };
  return {
    of: (projectId, statement) => {
      const project = habitsOf(projectId);
      const known = project.profiles.get(statement);
      if (known) return known;
      const profile: StatementProfile = {
        ...{ statement, project, wasPlain: true, trustedUntil: Number.NEGATIVE_INFINITY },
        ...{ askFrom: Number.NEGATIVE_INFINITY, asking: null, hasRun: false, isDistrusted: false },
        ...{ usualMs: Number.POSITIVE_INFINITY, sharedMs: Number.POSITIVE_INFINITY },
      };
      project.profiles.set(statement, profile);
      if (project.profiles.size > perProject) {
        const [oldest] = project.profiles.keys();
        if (oldest) project.profiles.delete(oldest);
      }
      return profile;
    },
    forget: (projectId, by) => {
      const project = projects.get(projectId);
      if (!project) return;
      project.changes++;
      if (by === 'schema') {
        project.hasCode = false;
        project.schemaChanges++;
        project.codelessUntil = Number.NEGATIVE_INFINITY;
      }
      const now = performance.now();
      for (const profile of project.profiles.values()) {
        profile.trustedUntil = Number.NEGATIVE_INFINITY;
        // To ask costs less than a change of tables did, and more than an insert whose trigger may have made one.
        const from = by === 'schema' && profile.wasPlain ? now : now + askAgainMs;
        profile.askFrom = Math.min(profile.askFrom, from);
      }
    },
    beginChange: (projectId) => {
      const project = habitsOf(projectId);
      project.changing++;
      return () => {
        project.changing--;
      };
    },
    suspect: (projectId) => {
      habitsOf(projectId).suspectUntil = performance.now() + suspectMs;
    },
  };
}

/** Known to leave nothing in a session, now. */
export function isPlain({
  statement,
  project,
  wasPlain,
  trustedUntil,
  isDistrusted,
}: StatementProfile): boolean {
  if (isDistrusted) return false;
  const now = performance.now();
  if (now < project.suspectUntil) return false;
  return statement.isProven || (wasPlain && project.changing === 0 && now < trustedUntil);
}

/** It can run code of the project's, which can do anything, change another statement's tables included. */
export function mayRunCode(profile: StatementProfile): boolean {
  return !isPlain(profile) && performance.now() >= profile.project.codelessUntil;
}

/**
 * If it is not known, it is asked behind what runs in the session, and nobody waits for the answer. Not at the first run,
 * unless nothing is known of the project: a text with its values inside never comes again, and the question takes longer
 * than the statement.
 */
export function learn(profile: StatementProfile, session: Session): void {
  if (profile.hasRun || performance.now() >= profile.project.codelessUntil) void find(profile, session);
  profile.hasRun = true;
}

/** Until what there is to be known is known. */
export async function know(profile: StatementProfile, session: Session): Promise<void> {
  await (profile.asking ?? find(profile, session));
}

function find(profile: StatementProfile, session: Session): Promise<void> | null {
  const { reached, isProven, isRead, changes: isChange } = profile.statement;
  if (isProven || reached === null || profile.isDistrusted) return null;
  const now = performance.now();
  if (now < profile.askFrom) return null;
  profile.askFrom = now + askAgainMs;
  const { project } = profile;
  const { changes, schemaChanges } = project;
  const isQuick = isRead && !project.hasCode;
  const named = [reached.relations, reached.shadowed, reached.functions, reached.types].map(toArrayText);
  const purposes = isRead ? ['read'] : isChange ? ['read', 'insert', 'change'] : ['read', 'insert'];
  const further = [reached.operators, reached.collations, purposes].map(toArrayText);
  const question = isQuick
    ? queryOne(session, quickQuestion, named)
    : queryOne(session, wholeQuestion, [...named, ...further]);
  const asking = question.then(
    (answer) => {
      profile.asking = null;
      if (answer === 'false') profile.wasPlain = false;
      // Without code, whatever ran meanwhile was none and changed nothing.
      const isCodeless = isQuick && answer === 'true' && project.schemaChanges === schemaChanges;
      if (isCodeless) project.codelessUntil = now + project.trustedMs();
      // What changed meanwhile may be what was looked at.
      if (project.changes !== changes && !isCodeless) return;
      if (answer === 'code') {
        project.hasCode = true;
        profile.askFrom = now;
        return;
      }
      profile.wasPlain = answer === 'true';
      const trustedMs = project.trustedMs();
      profile.trustedUntil = now + trustedMs;
      // A little before the end, so that a busy statement never falls back.
      profile.askFrom = now + trustedMs * 0.8;
    },
    (error) => {
      profile.asking = null;
      // A session that was lost says nothing about the statement.
      if (error instanceof RowhouseError) profile.wasPlain = false;
      else profile.askFrom = Number.NEGATIVE_INFINITY;
    },
  );
  profile.asking = asking;
  return asking;
}

/** It tried to write although it was taken to read alone. Once is enough. */
export function distrust(profile: StatementProfile): void {
  profile.isDistrusted = true;
}

export function noteDuration(profile: StatementProfile, ms: number): void {
  profile.usualMs = profile.usualMs === Number.POSITIVE_INFINITY ? ms : profile.usualMs * 0.75 + ms * 0.25;
}
