// Why a server is not backed up now, as the process that stores its backups last found it. In the control database, so that every
// process and `rowhouse doctor` can tell.
import type { Control } from '../control/control.ts';
import { findSetting, putSetting, settingOf } from '../control/settings.ts';
import { RowhouseError } from '../errors/errors.ts';
import type { Server } from '../servers/server.ts';
import { describeFailure } from './failure.ts';

/** Why a server has no backups, and what the operator can do. */
export type NotBackedUp = { reason: string; hint: string };

export type ProblemName = 'wal_problem' | 'backup_problem';

type Of = Pick<Server, 'id' | 'holdsControl'>;

/** `error`: null if there is no problem any more. */
export async function recordProblem(
  control: Control,
  server: Of,
  name: ProblemName,
  error: unknown,
): Promise<void> {
  const value = error === null ? '' : JSON.stringify(problemOf(error));
  // An installation without a problem stores nothing.
  if (value === '' && (await findSetting(control, settingOf(name, server))) === null) return;
  await putSetting(control, settingOf(name, server), value);
}

export async function findProblem(control: Control, server: Of): Promise<NotBackedUp | null> {
  const wal = readProblem(await findSetting(control, settingOf('wal_problem', server)));
  return wal ?? readProblem(await findSetting(control, settingOf('backup_problem', server)));
}

/** `value`: of the setting. */
export function readProblem(value: string | null): NotBackedUp | null {
  return value === null || value === '' ? null : (JSON.parse(value) as NotBackedUp);
}

export function problemOf(error: unknown): NotBackedUp {
  const described = describeFailure(error);
  const hint = 'The log of the service has the details. Check the storage with "rowhouse doctor".';
  const reason = described instanceof Error ? described.message : String(described);
  return { reason, hint: (described instanceof RowhouseError && described.hint) || hint };
}
