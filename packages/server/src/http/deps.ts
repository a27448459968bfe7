// The dependencies of the routes, created by main.ts or by a test.
import type { Logger } from 'pino';
import type { UserDeps } from '../access/end-users/deps.ts';
import type { PeopleMail } from '../access/people/mail.ts';
import type { RelyingParty } from '../access/people/passkeys.ts';
import type { Provider } from '../access/people/provider.ts';
import type { Drills } from '../backups/check/drills.ts';
import type { FleetBackups } from '../backups/fleet-backups.ts';
import type { Restores } from '../backups/restore/restores.ts';
import type { BranchDeps } from '../branches/deps.ts';
import type { Control } from '../control/control.ts';
import type { IdempotencyStore } from '../jobs/idempotency.ts';
import type { Jobs } from '../jobs/jobs.ts';
import type { AccountRates } from '../keys/account-rates.ts';
import type { KeyRing } from '../keys/verify.ts';
import type { Later } from '../lib/later.ts';
import type { ProjectLog } from '../metrics/project-log.ts';
import type { MoveDeps } from '../moves/move.ts';
import type { PublicAddress } from '../postgres-proxy/public-address.ts';
import type { Logins } from '../projects/logins.ts';
import type { QueryDeps } from '../query/run.ts';
import type { Compactions } from '../quotas/reclaiming/compact.ts';
import type { RefusalReason, UsageLooks } from '../quotas/usage.ts';
import type { DiskWatch } from '../servers/embedded/disk.ts';
import type { Fleet } from '../servers/fleet.ts';
import type { Server } from '../servers/server.ts';
import type { TableDeps } from '../tables/table-cache.ts';
import type { Exports } from '../transfer/export/export.ts';
import type { Imports } from '../transfer/import/import.ts';

export type Deps = Readonly<{
  control: Control;
  /** The first server, which holds the control database. For projects: `servers`. */
  server: Server;
  servers: Fleet;
  disk: DiskWatch;
  compactions: Compactions;
  exports: Exports;
  imports: Imports;
  branches: BranchDeps;
  moves: MoveDeps;
  jobs: Jobs;
  restores: Restores;
  /** null: backups are off. */
  backups: FleetBackups | null;
  /** null: backups are off, or there is no folder for restored servers. */
  drills: Drills | null;
  keyRing: KeyRing;
  rates: AccountRates;
  logins: Logins;
  masterKey: Buffer;
  query: QueryDeps;
  tables: TableDeps;
  users: UserDeps;
  idempotency: IdempotencyStore;
  usageLooks: UsageLooks;
  projectLog: ProjectLog;
  /** Called once for each write that is refused because the project or the disk is full. */
  countRefused: (reason: RefusalReason) => void;
  /** Where the PostgreSQL proxy is reached. null: clients connect to PostgreSQL itself. */
  proxy: PublicAddress | null;
  later: Later;
  peopleMail: PeopleMail;
  relyingParty: RelyingParty | null;
  /** null: people sign in here only. */
  provider: Provider | null;
  limits: { maxLimitMb: number; keepDeletedDays: number; maxTimeoutMs: number };
  now: () => number;
  log: Logger;
  version: string;
}>;
