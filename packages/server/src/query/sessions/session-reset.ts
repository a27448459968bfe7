// Resets a session between two requests, and switches it between reading and writing.
import { randomInt } from 'node:crypto';
import { type Receiver, type Session, silent } from '../../postgres/wire/session.ts';
import { isUserLogin, type ProjectLogin, roleBehind } from '../../servers/databases/login.ts';
import { identityOf } from '../exchange/acting-users.ts';
import { type Command, writeCommands } from '../exchange/commands.ts';
import type { SessionEffect } from '../statement/statement.ts';

type LoginAs = ProjectLogin['loginAs'];

/** What DISCARD ALL does, except for prepared statements: those are ours and worth keeping. */
const resets = {
  reset_settings: 'reset all',
  reset_cursors: 'close all',
  reset_channels: 'unlisten *',
  reset_sequences: 'discard sequences',
  reset_temp: 'discard temp',
};
const modes = {
  mode_read: modeText('on', '5s'),
  mode_write: modeText('off', '1s'),
};
/**
 * `checked`: how often PostgreSQL looks, while a statement runs, whether the service is still there. The timer for it also
 * wakes a process whose statement has long ended: with thousands of projects, once for nearly every read. A read of a service
 * that was killed may go on for a few seconds. A change may not: it holds locks that other requests wait for.
 */
function modeText(readOnly: string, checked: string): string {
  return `select pg_catalog.set_config('default_transaction_read_only', '${readOnly}', false), pg_catalog.set_config('client_connection_check_interval', '${checked}', false)`;
}
/** RESET ALL does not reset the role, and a function that a policy calls can change it for the session. */
function roleReset(loginAs: LoginAs): Command[] {
  return isUserLogin(loginAs) ? [`set role ${roleBehind(loginAs)}`] : [];
}
/**
 * Finds statements that the project's code has prepared, possibly under the name of one of ours. Ours are prepared by the
 * protocol, never by SQL. Sent as text, and before any named statement is used.
 */
const foreignStatements = 'select from pg_catalog.pg_prepared_statements where from_sql';

/** setseed() and the setting `seed` determine the next results of random(). Neither RESET nor DISCARD undoes them. */
const reseed = 'select pg_catalog.setseed($1)';
const seedSteps = 2 ** 47;

/** Run after nearly every change, so they are prepared: each in the session that needs it, when it first does. */
const texts = { ...resets, ...modes, reset_seed: reseed };
type Named = keyof typeof texts;
const preparedIn = new WeakMap<Session, Set<Named>>();

/** Before the first statement of a request. If a reset does not find it, code has deallocated our statements. */
export function prepareFirst(session: Session, loginAs: LoginAs): void {
  if (isUserLogin(loginAs)) {
    const { name, text } = identityOf(loginAs);
    session.out.parse(name, text);
  }
  session.out.parse('reset_settings', texts.reset_settings).sync();
  preparedIn.set(session, new Set(['reset_settings']));
  session.send(destroyOnFailure(session));
}

function runNamed(session: Session, name: Named, parameters: string[] = []): void {
  const prepared = preparedIn.get(session) ?? new Set();
  if (!preparedIn.has(session)) preparedIn.set(session, prepared);
  if (!prepared.has(name)) session.out.parse(name, texts[name]);
  prepared.add(name);
  session.out.bind(name, parameters).execute(0);
}

/** From -1 to 1. */
function newSeed(): string {
  return String((randomInt(seedSteps) / seedSteps) * 2 - 1);
}

/**
 * Resets everything that a statement that ran code can have left. The next request must wait: until the answer arrives,
 * the prepared statements are not known to be ours.
 */
export function resetSession(session: Session, loginAs: LoginAs): Promise<void> {
  const { out } = session;
  expectMode(session, 'write');
  out.parse('', foreignStatements).bind('', []).execute(1);
  writeCommands(out, roleReset(loginAs));
  for (const name of Object.keys(resets)) runNamed(session, name as Named);
  runNamed(session, 'reset_seed', [newSeed()]);
  out.sync();
  return new Promise((resolve) => {
    const receiver = destroyOnFailure(session);
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

/** Resets everything, including prepared statements. It can fail as well, by a timeout that a statement has set. */
export function discardAll(session: Session, loginAs: LoginAs): Promise<void> {
  session.statements.clear();
  expectMode(session, 'write');
  preparedIn.delete(session);
  session.out.parse('', 'discard all').bind('', []).execute(0).sync();
  session.send(destroyOnFailure(session));
  prepareFirst(session, loginAs);
  writeCommands(session.out, [...roleReset(loginAs), { text: reseed, parameters: [newSeed()] }]);
  session.out.sync();
  return new Promise((resolve) => {
    const receiver = destroyOnFailure(session);
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
  runPrepared(session, 'reset_sequences');
}

/** Statements assumed only to read run in read-only transactions, so that PostgreSQL enforces it. */
export function setMode(session: Session, mode: 'read' | 'write'): void {
  expectMode(session, mode);
  runPrepared(session, `mode_${mode}`);
}

/** Any other value is reported: what shares the session could write. */
function expectMode({ settings }: Session, mode: 'read' | 'write'): void {
  settings.expect('default_transaction_read_only', mode === 'read' ? 'on' : 'off');
}

function runPrepared(session: Session, name: keyof typeof resets | keyof typeof modes): void {
  runNamed(session, name);
  session.out.sync();
  session.send(destroyOnFailure(session));
}

/** Destroys a session whose reset fails. */
function destroyOnFailure(session: Session): Receiver {
  return {
    ...silent,
    error: () => session.destroy(),
    ready: (status) => {
      if (status !== 'idle') session.destroy();
    },
  };
}

export type SessionState = SessionEffect | 'plain' | 'sequences' | 'broken';
