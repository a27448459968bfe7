// How a session is cleaned between two requests, and switched between reading and writing.
import { randomInt } from 'node:crypto';
import { isUserLogin, type ProjectLogin } from '../../engine/provision.ts';
import { type Receiver, type Session, silent } from '../../postgres/session.ts';
import { writeCommands } from '../exchange/commands.ts';
import type { SessionEffect } from '../statement/statement.ts';

type LoginAs = ProjectLogin['loginAs'];

/** What DISCARD ALL does, but for prepared statements: those are ours, and worth keeping. */
const resets = {
  reset_settings: 'reset all',
  reset_cursors: 'close all',
  reset_channels: 'unlisten *',
  reset_sequences: 'discard sequences',
  reset_temp: 'discard temp',
};
const modes = {
  mode_read: 'set default_transaction_read_only = on',
  mode_write: 'set default_transaction_read_only = off',
};
/**
 * RESET ALL leaves the role as it is, and a function that a policy calls can change it for the session. By text: such a
 * function could put another statement in the place of one that is prepared, and the next user find what it left.
 */
const userResets = ['set role none', ...Object.values(resets)];
/**
 * Code of the project's can prepare a statement under the name of one of ours. Ours come by the protocol, never by SQL. By
 * text, and before anything that has a name.
 */
const foreignStatements = 'select from pg_catalog.pg_prepared_statements where from_sql';

/** setseed, and the setting of that name, decide what random() gives from then on. Neither RESET nor DISCARD undoes it. */
const reseed = 'select pg_catalog.setseed($1)';
const seedSteps = 2 ** 47;

/** From -1 to 1. */
function newSeed(): string {
  return String((randomInt(seedSteps) / seedSteps) * 2 - 1);
}

/**
 * Cleans it of what a statement can have left that ran code. Whoever comes next must wait: until the answer is there, the
 * statements that are prepared are not known to be ours.
 */
export function resetSession(session: Session, loginAs: LoginAs): Promise<void> {
  const { out } = session;
  out.parse('', foreignStatements).bind('', []).execute(1);
  if (isUserLogin(loginAs)) writeCommands(out, [...userResets, { text: reseed, parameters: [newSeed()] }]);
  else {
    for (const name of Object.keys(resets)) out.bind(name, []).execute(0);
    out.bind('reset_seed', [newSeed()]).execute(0);
  }
  out.sync();
  return new Promise((resolve) => {
    const receiver = intact(session);
    let isFirst = true;
    session.send({
      ...receiver,
      row: () => {
        if (isFirst) session.destroy();
      },
      complete: () => {
        isFirst = false;
      },
      ready: (status) => {
        receiver.ready(status);
        resolve();
      },
      lost: () => resolve(),
    });
  });
}

/** Cleans it of everything, prepared statements included. It can fail too, by a deadline that was set before it. */
export function discardAll(session: Session, loginAs: LoginAs): Promise<void> {
  session.statements.clear();
  session.out.parse('', 'discard all').bind('', []).execute(0).sync();
  session.send(intact(session));
  writeCommands(session.out, [{ text: reseed, parameters: [newSeed()] }]);
  return prepareResets(session, loginAs);
}

/** Prepared, because they run after nearly every change. DISCARD ALL takes them away with all else. */
export function prepareResets(session: Session, loginAs: LoginAs): Promise<void> {
  if (!isUserLogin(loginAs))
    for (const [name, text] of Object.entries({ ...resets, ...modes, reset_seed: reseed }))
      session.out.parse(name, text);
  session.out.sync();
  return new Promise((resolve) => {
    const receiver = intact(session);
    session.send({
      ...receiver,
      ready: (status) => {
        receiver.ready(status);
        resolve();
      },
      lost: () => resolve(),
    });
  });
}

export function resetSequences(session: Session): void {
  tell(session, 'reset_sequences');
}

/** What is taken to read alone runs in read-only transactions: PostgreSQL itself sees to it that it does. */
export function setMode(session: Session, mode: 'read' | 'write'): void {
  tell(session, `mode_${mode}`);
}

function tell(session: Session, name: keyof typeof resets | keyof typeof modes): void {
  session.out.bind(name, []).execute(0).sync();
  session.send(intact(session));
}

/** A session that cannot be cleaned is not used again. */
function intact(session: Session): Receiver {
  return {
    ...silent,
    error: () => session.destroy(),
    ready: (status) => {
      if (status !== 'idle') session.destroy();
    },
  };
}

export type SessionState = SessionEffect | 'plain' | 'sequences' | 'broken';
