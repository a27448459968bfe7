// The error for a caller when a backup fails. The caller is the operator of the installation, so the storage's own words
// are of use.
import { errors, RowhouseError } from '../errors/errors.ts';
import { PostgresError } from '../postgres/admin/database.ts';
import { AskError } from '../postgres/wire/ask.ts';
import { RefusedError } from '../postgres/wire/session-errors.ts';
import { DecryptionError } from './repository/encryption.ts';
import { RepositoryConflict } from './repository/repository.ts';
import { StorageError } from './storage/storage.ts';

const hints: Record<StorageError['problem'], string> = {
  unavailable: 'Check that the storage can be reached. WAL is kept until then, and stored later.',
  denied: 'Check the credentials and permissions of the storage that ROWHOUSE_BACKUP_URL names.',
  full: 'Free space, lower ROWHOUSE_BACKUP_DAYS, or set ROWHOUSE_BACKUP_URL to another disk.',
  missing: 'Run "rowhouse backup verify" to find what else is missing.',
  unmarked:
    'Mount the disk, or bring the folder or the objects back: WAL is kept until then, and stored later. If the backups are lost for good, begin a new repository there: rowhouse backup now --new-repository.',
  foreign:
    'Mount the right disk, or correct ROWHOUSE_BACKUP_URL: WAL is kept until then, and stored later. If this repository takes the place of the other one: rowhouse backup now --new-repository.',
  exists: 'Only one installation may use the place that ROWHOUSE_BACKUP_URL names.',
};

export function describeFailure(error: unknown): unknown {
  if (error instanceof RowhouseError) return error;
  if (error instanceof StorageError) return errors.backupFailed(error.message, hints[error.problem], error);
  if (error instanceof RepositoryConflict) return errors.backupFailed(error.message, hints.exists, error);
  if (error instanceof DecryptionError) {
    const hint =
      error.problem === 'wrong_key'
        ? 'Start the service with the master key with which these backups were made, or set ROWHOUSE_BACKUP_URL to another place.'
        : 'Take a new full backup: "rowhouse backup now --full".';
    return errors.backupFailed(error.message, hint, error);
  }
  if (error instanceof AskError || error instanceof RefusedError || error instanceof PostgresError) {
    return errors.backupFailed(
      `PostgreSQL refuses the backup: ${error.message}`,
      'The role of the service needs the attribute REPLICATION, and pg_hba.conf must allow it replication connections.',
      error,
    );
  }
  return error;
}
