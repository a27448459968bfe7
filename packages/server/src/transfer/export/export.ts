// An export of a project: which program makes it, how many run at once, and when one is ended. It holds a snapshot and
// the lightest lock on every table, so an export without a reader must end.

import { randomBytes } from 'node:crypto';
import type { ExportFormat } from '@rowhouse/api';
import type { Control } from '../../control/control.ts';
import { errors } from '../../errors/errors.ts';
import { type SlotLimits, slotsOnServers } from '../../lib/account-slots.ts';
import { timeoutSignal } from '../../lib/timeout-signal.ts';
import type { Address } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { ensureDumpRole } from '../../servers/databases/dump-role.ts';
import { databaseOf, dumpRoleOf } from '../../servers/databases/names.ts';
import type { Server, Servers } from '../../servers/server.ts';
import { exportLimits } from '../../settings/limits/exports.ts';
import { exportCsv } from './csv.ts';
import { lockExport, refuseTraces, refuseWhileMoving } from './moving.ts';
import { dumpByProgram, findNativeMajor, type ProgramEnvironment } from './native.ts';
import { DumpError, dumpArguments, dumpEnvironment } from './pg-dump.ts';
import { lockTables, openReader } from './tables.ts';
import { dumpByWasm } from './wasm.ts';
import { wasmMajor } from './wasm-module.ts';

/** Takes a piece, and resolves when it is stored or sent: then its memory is reused. */
export type Write = (piece: Uint8Array) => Promise<void>;
/** The project, its account, and its server. */
export type Source = Readonly<{ id: string; account_id: string; server_id: number }>;
export type Exports = {
  /** Returns when all of it was written. `closed`: the caller is gone. */
  run(project: Source, format: ExportFormat, write: Write, closed: AbortSignal): Promise<void>;
  stop(): Promise<void>;
};

type Deps = {
  control: Control;
  servers: Servers;
  /** Before the locks are taken: an upgrade that waited for them would keep every request waiting. */
  ensureCurrent: (projectId: string) => Promise<void>;
  onError: (error: unknown) => void;
  /** To run an installed pg_dump with. Without it, none is used. */
  programs?: ProgramEnvironment;
  limits?: ExportLimits;
};
export type ExportLimits = Partial<Limits>;
type Limits = {
  /** On a server. Each has a thread with its own memory (about 25 MB) and reads as fast as it can. */
  slots: SlotLimits;
  stallMs: number;
  maxMs: number;
  /** The memory of pg_dump, if it is not the usual limit. */
  maxMemoryMb?: number | undefined;
};

export function openExports({
  control,
  servers,
  ensureCurrent,
  onError,
  programs,
  limits = {},
}: Deps): Exports {
  const { slots, stallMs, maxMs, maxMemoryMb }: Limits = { ...exportLimits, ...limits };
  // Looked for once, when it is first needed.
  let found: Promise<Native | null> | null = null;
  const findNative = () => (found ??= findProgram(programs));
  const stopping = new AbortController();
  const slotsOn = slotsOnServers('exports', slots);
  const running = new Set<Promise<void>>();

  const work = async (source: Source, format: ExportFormat, write: Write, closed: AbortSignal) => {
    const { id } = source;
    const server = servers.of(source.server_id);
    await ensureCurrent(id);
    await control.session(async (session, lost) => {
      await lockExport(session, id);
      // CSV has no definitions.
      if (format !== 'csv') {
        await refuseWhileMoving(session, id);
        await refuseTraces(server, id);
      }
      const overdue = timeoutSignal(maxMs);
      const signal = AbortSignal.any([closed, lost, overdue, stopping.signal]);
      const address = await ensureDumpRole(server, id);
      const sessionName = `rowhouse export ${randomBytes(6).toString('hex')}`;
      let isEmpty = true;
      let isDone = false;
      try {
        const pieces = await makePieces(format, {
          address,
          sessionName,
          signal,
          findNative,
          maxMemoryMb,
        });
        for await (const piece of pieces) {
          await keepUp(write, piece, stallMs, signal);
          isEmpty = false;
        }
        if (isEmpty) throw new DumpError('pg_dump: error: it wrote nothing');
        isDone = true;
      } catch (error) {
        throw error instanceof DumpError ? errors.exportFailed(error.message, error) : error;
      } finally {
        // Before the next export of this project may begin.
        if (!isDone) await endSession(server, id, sessionName).catch(onError);
      }
    });
  };

  return {
    run: async (source, format, write, closed) => {
      if (stopping.signal.aborted) throw errors.unavailable('stopping');
      const leave = slotsOn(source.server_id).enter(source.account_id);
      const working = work(source, format, write, closed);
      running.add(working);
      try {
        await working;
      } finally {
        running.delete(working);
        leave();
      }
    },
    stop: async () => {
      stopping.abort(errors.unavailable('stopping'));
      await Promise.allSettled(running);
    },
  };
}

type Making = {
  address: Address;
  sessionName: string;
  signal: AbortSignal;
  findNative: () => Promise<Native | null>;
  maxMemoryMb?: number | undefined;
  /** Further arguments of pg_dump. */
  more?: readonly string[];
};
export type Native = { major: number; environment: ProgramEnvironment };

export async function findProgram(environment?: ProgramEnvironment): Promise<Native | null> {
  const major = environment ? await findNativeMajor(environment) : null;
  return environment && major !== null ? { major, environment } : null;
}

/** The dump as it comes. `findNative`: an installed pg_dump, if there is one. */
export async function makePieces(format: ExportFormat, making: Making): Promise<AsyncIterable<Uint8Array>> {
  const { address, sessionName, signal, findNative, maxMemoryMb } = making;
  if (format === 'csv') return exportCsv(address, sessionName, signal);
  const serverMajor = await checkTables(making);
  const run = {
    address,
    signal,
    maxMemoryMb,
    args: [...dumpArguments(format, address), ...(making.more ?? [])],
    env: dumpEnvironment(address, sessionName),
  };
  // The program would have to be told how TLS is verified here; the socket of the thread knows.
  const native = address.tls ? null : await findNative();
  const isNative = native !== null && native.major >= serverMajor;
  if (!isNative && serverMajor > wasmMajor) throw errors.exportTooNew(serverMajor);
  return isNative ? dumpByProgram(run, native.environment) : dumpByWasm(run);
}

/**
 * Finds the common reasons for pg_dump to fail before it starts, where PostgreSQL gives each a code. Returns the major version of
 * the server.
 */
async function checkTables({ address, sessionName, signal }: Making): Promise<number> {
  const session = await openReader(address, sessionName);
  try {
    await lockTables(session, signal);
    return session.settings.serverMajor;
  } finally {
    session.close();
  }
}

/** A promise of its own for each piece: racing with one that lasts would gather a listener a piece. */
async function keepUp(write: Write, piece: Uint8Array, stallMs: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const kept = write(piece);
  let timer: NodeJS.Timeout | undefined;
  let stop = () => {};
  try {
    await new Promise<void>((resolve, reject) => {
      stop = () => reject(signal.reason);
      signal.addEventListener('abort', stop, { once: true });
      timer = setTimeout(() => reject(new StalledError(stallMs)), stallMs);
      kept.then(resolve, reject);
    });
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  }
}

class StalledError extends Error {
  override readonly name = 'StalledError';

  constructor(stallMs: number) {
    super(`The caller has read nothing for ${stallMs} ms.`);
  }
}

/** It ends by itself when it notices that its client is gone; this does not wait for that. */
async function endSession(server: Server, id: string, sessionName: string): Promise<void> {
  await server.maintenance.query(sql`
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = ${databaseOf(id)} and usename = ${dumpRoleOf(id)} and application_name = ${sessionName}`);
}
