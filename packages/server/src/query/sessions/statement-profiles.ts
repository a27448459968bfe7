// What earlier runs taught us about a project's statements: whether they are plain, and how long they take. A plain
// statement provably runs only PostgreSQL's own harmless code, so it leaves nothing in a session and needs no reset. The
// parser finds the names in a statement (references.ts), and the catalog tells what they mean (reachable-code.ts). Until
// the catalog has answered, the reset is done; it is asked again every few seconds. A statement that turns out not to be
// plain is never trusted again.
import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { RowhouseError } from '../../errors/errors.ts';
import { upTo } from '../../lib/cache-size.ts';
import type { Session } from '../../postgres/wire/session.ts';
import type { ProjectLogin } from '../../servers/databases/login.ts';
import { queryOne } from '../exchange/query-one.ts';
import { toArrayText } from '../json/array-text.ts';
import { harmlessFunctions } from '../statement/harmless-functions.ts';
import { fullCheck, leastCheck, quickCheck } from '../statement/reachable-code.ts';
import type { Reached } from '../statement/references.ts';
import type { Statement } from '../statement/statement.ts';

export type StatementProfile = {
  readonly statement: Statement;
  readonly project: ProjectProfiles;
  /** The catalog's answer, or the presumed one, until when it is trusted, and when to ask again. */
  wasPlain: boolean;
  trustedUntil: number;
  askFrom: number;
  asking: Promise<void> | null;
  hasRun: boolean;
  /** The full check, whatever suffices for the project: a policy, a view or children are behind its relations. */
  needsFull: boolean;
  /** Why the catalog says that it may run code of the project; null: it does not, or was not asked. */
  because: string | null;
  /** It broke the assumption: it tried to write, or changed its session. */
  isDistrusted: boolean;
  /** How long it usually takes, weighted towards the last runs. Infinity before the first run. */
  usualMs: number;
  /** How long it took in a group commit, including its part of the commit. Infinity before the first time. */
  sharedMs: number;
  /** The user whose run of it last undid a group, and when. */
  failedBy: { user: string; at: number } | null;
  /** How many of the project's `changes` are runs of this statement itself, while it was not known to run no code. */
  ownChanges: number;
};
/** A project's statements. `changes` counts events that may have changed its tables. */
type ProjectProfiles = {
  /** By the login: policies hold for users and not for the project's own role. */
  profiles: Map<ProjectLogin['loginAs'], Map<Statement, StatementProfile>>;
  changes: number;
  /** The cheapest check that can answer for its reads, as far as is known. */
  check: 'least' | 'quick' | 'full';
  /** Until then something is known about at least one of its statements. */
  knownUntil: number;
  /** Until then the project is known to have no function, operator or cast of its own, so no statement can run code. */
  codelessUntil: number;
  /** Counts changes by explicit statements. Changes by code count in `changes` only. */
  schemaChanges: number;
  /** The number of running statements that can change tables. */
  changing: number;
  /** Until then no statement counts as plain, because a session that they shared had unexpected traces. */
  suspectUntil: number;
  trustedMs: () => number;
};

export type StatementProfiles = {
  of(project: Pick<ProjectLogin, 'id' | 'loginAs'>, statement: Statement): StatementProfile;
  /** A statement may have changed tables: explicitly ('schema'), or through the project's code ('code'). */
  forget(projectId: string, by: 'schema' | 'code', cause?: StatementProfile | null): void;
  /** After a promotion, which may have lost changes of tables. */
  forgetAll(): void;
  /**
   * Call before a statement that can change tables. Call the returned function when its changes are forgotten.
   */
  beginChange(projectId: string): () => void;
  /** A statement that was assumed plain left traces in a session, and it is unknown which one. */
  suspect(projectId: string): void;
};

/**
 * The check takes PostgreSQL 1 to 9 ms. With hundreds of active projects it runs less often: a check of 2 ms takes a twentieth
 * of a core for all of them together. With a thousand, a larger share would be a quarter of what their statements cost.
 */
const [minTrustedMs, maxTrustedMs, trustedMsPerSession] = [10_000, 120_000, 40];

/** How long what the catalog has said counts, if nobody says that it has changed. */
export function trustedMsOf(sessions: number): number {
  return Math.min(maxTrustedMs, Math.max(minTrustedMs, sessions * trustedMsPerSession));
}

const askAgainMs = 1_000;
const maxProfiles = 500;
const suspectMs = 10 * 60_000;

/** `countSessions`: the number of open sessions, which indicates how many projects are active. */
export function openStatementProfiles(countSessions: () => number): StatementProfiles {
  const trustedMs = () => trustedMsOf(countSessions());
  const projects = new LRUCache<string, ProjectProfiles>(upTo(5_000));
  const profilesOf = (projectId: string): ProjectProfiles => {
    const known = projects.get(projectId);
    if (known) return known;
    const never = Number.NEGATIVE_INFINITY;
    const project: ProjectProfiles = {
      check: 'least',
      profiles: new Map(),
      changes: 0,
      schemaChanges: 0,
      changing: 0,
      trustedMs,
      knownUntil: never,
      codelessUntil: never,
      suspectUntil: never,
    };
    projects.set(projectId, project);
    return project;
  };
  const forget: StatementProfiles['forget'] = (projectId, by, cause) => {
    const project = projects.get(projectId);
    if (!project) return;
    project.changes++;
    project.knownUntil = Number.NEGATIVE_INFINITY;
    if (cause) cause.ownChanges++;
    if (by === 'schema') {
      project.check = 'least';
      project.schemaChanges++;
      project.codelessUntil = Number.NEGATIVE_INFINITY;
    }
    const now = performance.now();
    for (const profile of [...project.profiles.values()].flatMap((known) => [...known.values()])) {
      profile.trustedUntil = Number.NEGATIVE_INFINITY;
      // The check costs less than a change of tables, but more than an insert whose trigger may have changed one.
      const from = by === 'schema' && profile.wasPlain ? now : now + askAgainMs;
      profile.askFrom = Math.min(profile.askFrom, from);
      if (by === 'schema') profile.needsFull = false;
    }
  };
  return {
    of: ({ id, loginAs }, statement) => {
      const project = profilesOf(id);
      const profiles = project.profiles.get(loginAs) ?? new Map<Statement, StatementProfile>();
      project.profiles.set(loginAs, profiles);
      const known = profiles.get(statement);
      if (known) return known;
      const profile: StatementProfile = {
        statement,
        project,
        wasPlain: true,
        trustedUntil: Number.NEGATIVE_INFINITY,
        askFrom: Number.NEGATIVE_INFINITY,
        asking: null,
        hasRun: false,
        needsFull: false,
        because: null,
        isDistrusted: false,
        usualMs: Number.POSITIVE_INFINITY,
        sharedMs: Number.POSITIVE_INFINITY,
        failedBy: null,
        ownChanges: 0,
      };
      profiles.set(statement, profile);
      if (profiles.size > maxProfiles) {
        const [oldest] = profiles.keys();
        if (oldest) profiles.delete(oldest);
      }
      return profile;
    },
    forget,
    forgetAll: () => {
      for (const projectId of [...projects.keys()]) forget(projectId, 'schema');
    },
    beginChange: (projectId) => {
      const project = profilesOf(projectId);
      project.changing++;
      return () => {
        project.changing--;
      };
    },
    suspect: (projectId) => {
      profilesOf(projectId).suspectUntil = performance.now() + suspectMs;
    },
  };
}

/** Known now to leave nothing in a session. */
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

/** How many runs may have changed tables so far, and how many of them were runs of the statement itself. */
export type ChangeCounts = Readonly<{ all: number; own: number }>;

export function changesOf({ project, ownChanges }: StatementProfile): ChangeCounts {
  return { all: project.changes, own: ownChanges };
}

/** Nothing but the statement itself may have changed tables since. */
function isUnchangedSince({ project, ownChanges }: StatementProfile, before: ChangeCounts): boolean {
  return project.changes - before.all === ownChanges - before.own;
}

/** The catalog answered while the statement ran, and nothing else changed tables: it has run no code. */
export function isProvenSince(profile: StatementProfile, before: ChangeCounts): boolean {
  return isPlain(profile) && isUnchangedSince(profile, before);
}

/** It can run the project's code, which can do anything, such as change the tables of other statements. */
export function mayRunCode(profile: StatementProfile): boolean {
  return !isPlain(profile) && performance.now() >= profile.project.codelessUntil;
}

/** Nothing speaks against it so far. */
export function mayBePlain({ statement, wasPlain, isDistrusted }: StatementProfile): boolean {
  return wasPlain && !isDistrusted && statement.reached !== null;
}

/** Nothing is known about the project's statements, so code that changes tables makes no answer stale. */
export function knowsNothing({ project }: StatementProfile): boolean {
  return performance.now() >= Math.max(project.knownUntil, project.codelessUntil);
}

/**
 * True if the catalog is asked. If the answer is unknown, the check runs in the session behind the statement, and no request waits for it. The first
 * run skips it, unless nothing is known about the project: a text with its values inline never comes again, and the
 * check takes longer than the statement.
 */
export function learn(profile: StatementProfile, session: Session): boolean {
  const mayAsk = profile.hasRun || performance.now() >= profile.project.codelessUntil;
  profile.hasRun = true;
  return mayAsk && askCatalog(profile, session) !== null;
}

/** The same where others wait behind the questions: the rest is asked behind later runs. */
export function learnSome(profiles: readonly StatementProfile[], session: Session): void {
  let asked = 0;
  for (const profile of profiles) if (asked < maxAskedInBetween && learn(profile, session)) asked++;
}
const maxAskedInBetween = 2;

/**
 * Waits until the catalog has answered, if it has to be asked. Statements that ran meanwhile outdate the answer, so it is asked once
 * more: those that came later wait here, too, and run nothing.
 */
export async function know(profile: StatementProfile, session: Session, isDue = false): Promise<void> {
  const first = profile.asking ?? askCatalog(profile, session, isDue);
  if (!first) return;
  await Promise.race([first, patience()]);
  if (isPlain(profile) || !profile.wasPlain) return;
  await Promise.race([profile.asking ?? askCatalog(profile, session, true), patience()]);
}

/** The same for statements that run together: asked one after the other, each would outdate what is known about the others. */
export async function knowAll(profiles: readonly StatementProfile[], session: Session): Promise<void> {
  const unknown = profiles.filter((profile) => !isPlain(profile));
  // The questions are ahead of the statements: many of them are asked behind the statements instead.
  if (unknown.length > maxAskedFirst) return;
  const now = performance.now();
  if (!unknown.some(({ asking, askFrom }) => asking !== null || now >= askFrom)) return;
  await Promise.all(unknown.map((profile) => know(profile, session, true)));
}

const maxAskedFirst = 5;

/** Another session may have asked, and what holds that one up must not hold up this one. */
const patience = () => sleep(100, undefined, { ref: false });

type Ask = (statement: Statement, reached: Reached, session: Session) => Promise<string | null>;
const ask: Record<ProjectProfiles['check'], Ask> = {
  least: (_statement, { relations, types, functions }, session) => {
    const unknown = functions.filter((name) => !harmlessFunctions.has(name));
    return queryOne(
      session,
      leastCheck,
      [relations, types, unknown].map((values) => toArrayText(values)),
    );
  },
  quick: (_statement, reached, session) => queryOne(session, quickCheck, namesIn(reached)),
  full: ({ isRead, changes }, reached, session) => {
    const purposes = isRead ? ['read'] : changes ? ['read', 'insert', 'change'] : ['read', 'insert'];
    const more = [reached.operators, reached.collations, purposes].map((values) => toArrayText(values));
    return queryOne(session, fullCheck, [...namesIn(reached), ...more]);
  },
};

function namesIn({ relations, shadowed, functions, types }: Reached): string[] {
  return [relations, shadowed, functions, types].map((values) => toArrayText(values));
}

function askCatalog(profile: StatementProfile, session: Session, isDue = false): Promise<void> | null {
  const { reached, isProven, isRead } = profile.statement;
  if (isProven || reached === null || profile.isDistrusted) return null;
  const now = performance.now();
  if (now < profile.askFrom && !isDue) return null;
  profile.askFrom = now + askAgainMs;
  const { project } = profile;
  const { schemaChanges } = project;
  const before = changesOf(profile);
  const check =
    !isRead || profile.needsFull
      ? 'full'
      : project.check === 'least' && reached.shadowed.length > 0
        ? 'quick'
        : project.check;
  const asking = ask[check](profile.statement, reached, session).then(
    (answer) => {
      profile.asking = null;
      const isHarmful = answer !== null && !['true', 'quick', 'full', 'behind'].includes(answer);
      if (isHarmful) profile.wasPlain = false;
      profile.because = isHarmful ? answer : null;
      // Without code in the project, statements that ran meanwhile have not changed tables through code.
      const isCodeless =
        check !== 'full' &&
        (answer === 'true' || answer === 'behind') &&
        project.schemaChanges === schemaChanges;
      if (isCodeless) project.codelessUntil = now + project.trustedMs();
      if (answer === 'quick' || answer === 'full') {
        // A check that started earlier must not lower the level.
        if (project.check !== 'full' && project.schemaChanges === schemaChanges) project.check = answer;
        profile.askFrom = now;
        return;
      }
      if (answer === 'behind') {
        profile.needsFull = true;
        profile.askFrom = now;
        return;
      }
      // A change meanwhile may concern the objects that were checked. Runs of this very statement do not count: the
      // answer is about what they can have done. Otherwise a busy statement would never be known again.
      if (!isUnchangedSince(profile, before) && !isCodeless) return;
      profile.wasPlain = answer === 'true';
      const trustedMs = project.trustedMs();
      profile.trustedUntil = now + trustedMs;
      project.knownUntil = Math.max(project.knownUntil, profile.trustedUntil);
      // A little before the answer expires, so that a busy statement never needs a reset.
      profile.askFrom = now + trustedMs * 0.8;
    },
    (error) => {
      profile.asking = null;
      // PostgreSQL reported an error, such as a missing relation. A lost session tells nothing about the statement.
      if (error instanceof RowhouseError) profile.wasPlain = false;
      else profile.askFrom = Number.NEGATIVE_INFINITY;
    },
  );
  profile.asking = asking;
  return asking;
}

/** It tried to write although it was assumed only to read. Once is enough. */
export function distrust(profile: StatementProfile): void {
  profile.isDistrusted = true;
}

export function noteDuration(profile: StatementProfile, ms: number): void {
  profile.usualMs = profile.usualMs === Number.POSITIVE_INFINITY ? ms : profile.usualMs * 0.75 + ms * 0.25;
}
