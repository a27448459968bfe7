// A live branch: an export of the parent that is imported into a new project, as a job. The parent is not paused, and the
// branch takes longer: its tables are filled row by row and its indexes are built again.
import type { CreateProject } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import { errors } from '../errors/errors.ts';
import { sql } from '../postgres/sql.ts';
import { Pieces } from '../postgres/wire/pieces.ts';
import type { ProjectRow } from '../projects/project.ts';
import type { Exports } from '../transfer/export/export.ts';
import { refuseWhileMoving } from '../transfer/export/moving.ts';
import type { BranchOrigin } from '../transfer/import/import.ts';
import type { BranchDeps, FilledBranch } from './deps.ts';

export async function startLiveBranch(
  { control, exports, imports }: BranchDeps,
  parent: ProjectRow,
  input: CreateProject,
  origin: BranchOrigin,
): Promise<FilledBranch> {
  // The export looks again. This tells the caller instead of the job.
  await refuseWhileMoving(control, parent.id);
  return imports.fromParent(parent.account_id, input, origin, async function* (signal) {
    try {
      yield* exportOf(exports, parent, signal);
    } catch (error) {
      throw (await isDeleted(control, parent)) ? errors.projectDeleted(parent.slug) : error;
    }
  });
}

/** Its database is closed then, which looks like a PostgreSQL that is unavailable. */
async function isDeleted(control: Control, { id }: ProjectRow): Promise<boolean> {
  const rows = await control.query(sql`select 1 from projects where id = ${id} and deleted_at is null`);
  return rows.length === 0;
}

/** The export as it comes; the next piece is made when the last one was taken. */
async function* exportOf(
  exports: Exports,
  parent: ProjectRow,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const left = new AbortController();
  let onTaken = () => {};
  const pieces = new Pieces(() => onTaken());
  const write = (piece: Uint8Array) =>
    new Promise<void>((resolve) => {
      onTaken = resolve;
      pieces.push(piece);
    });
  const running = exports.run(parent, 'custom', write, AbortSignal.any([signal, left.signal])).then(
    () => pieces.end(),
    (error) => pieces.fail(error),
  );
  try {
    yield* pieces;
  } finally {
    left.abort(new Error('The import does not take the rest.'));
    await running;
  }
}
