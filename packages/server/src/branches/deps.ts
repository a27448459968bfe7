// What the operations on branches need.
import type { Job, Project } from '@rowhouse/api';
import type { Control } from '../control/control.ts';
import type { Gate } from '../query/sessions/gate.ts';
import type { DiskWatch } from '../servers/embedded/disk.ts';
import type { Server, Servers } from '../servers/server.ts';
import type { Exports } from '../transfer/export/export.ts';
import type { Imports } from '../transfer/import/import.ts';
import type { ServerTurns } from './server-turns.ts';

/** A job fills it. */
export type FilledBranch = Readonly<{ project: Project; apiKey: string; job: Job }>;

export type BranchDeps = Readonly<{
  control: Control;
  servers: Servers;
  /** The disk of a server. */
  diskOf: (serverId: number) => DiskWatch;
  gate: Gate;
  inTurn: ServerTurns;
  /** Before a copy: an upgrade meanwhile would be in the row of the source, and not in the copy. */
  ensureCurrent: (projectId: string) => Promise<void>;
  /** Forgets what this process knows of the contents of a project's database. */
  forget: (projectId: string) => void;
  /** For a live branch. */
  exports: Exports;
  imports: Imports;
  limits: { maxLimitMb: number; keepDeletedDays: number };
  now: () => number;
  onError: (error: unknown) => void;
}>;

/** For an operation on the projects of one server. */
export type ServerBranchDeps = BranchDeps & Readonly<{ server: Server }>;

export function onServer(deps: BranchDeps, serverId: number): ServerBranchDeps {
  return { ...deps, server: deps.servers.of(serverId) };
}
