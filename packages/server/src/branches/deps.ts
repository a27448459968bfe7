// What the operations on branches need.
import type { Control } from '../control/control.ts';
import type { Exports } from '../dumps/export.ts';
import type { Imports } from '../dumps/import/import.ts';
import type { DiskWatch } from '../engine/disk.ts';
import type { Server } from '../engine/servers.ts';
import type { Gate } from '../query/sessions/gate.ts';
import type { InTurn } from './in-turn.ts';

export type BranchDeps = Readonly<{
  control: Control;
  server: Server;
  disk: DiskWatch;
  gate: Gate;
  inTurn: InTurn;
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
