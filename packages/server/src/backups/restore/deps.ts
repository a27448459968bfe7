// What restores and drills of single projects need.
import type { BranchDeps } from '../../branches/deps.ts';
import type { Control } from '../../control/control.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { DiskWatch } from '../../servers/embedded/disk.ts';
import type { Fleet } from '../../servers/fleet.ts';
import type { ProgramEnvironment } from '../../transfer/export/native.ts';
import type { Imports } from '../../transfer/import/import.ts';
import type { FleetBackups } from '../fleet-backups.ts';

export type RestoreDeps = {
  control: Control;
  servers: Fleet;
  /** The disk of the folder below. */
  disk: DiskWatch;
  jobs: Jobs;
  imports: Imports;
  /** null: they are off. */
  backups: FleetBackups | null;
  /** The data folder of the service, in which restored servers run. null: there is none. */
  dataFolder: string | null;
  /** Whether the first server is the embedded one. */
  isEmbedded: boolean;
  programs?: ProgramEnvironment;
  /** A restore in place exchanges databases as the promotion of a branch does. */
  branches: BranchDeps;
  limits: { maxLimitMb: number; keepDeletedDays: number };
  /** How long a restore may go without progress. Left out: 30 minutes. */
  stallMs?: number | undefined;
  now: () => number;
  onError: (error: unknown) => void;
};
