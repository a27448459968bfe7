// What restores and drills of single projects need.
import type { Control } from '../../control/control.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { DiskWatch } from '../../servers/embedded/disk.ts';
import type { Fleet } from '../../servers/fleet.ts';
import type { Server } from '../../servers/server.ts';
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
  /** Exchanges the databases of two projects of a server; the second one is deleted then. The signal ends waiting for a turn. */
  exchange: (
    place: { server: Server; account: string },
    projectId: string,
    otherId: string,
    signal: AbortSignal,
  ) => Promise<void>;
  limits: { maxLimitMb: number; keepDeletedDays: number };
  /** How long a restore may go without progress. Left out: 30 minutes. */
  stallMs?: number | undefined;
  now: () => number;
  onError: (error: unknown) => void;
};
