// The keepers of all servers, in the elected process. Each server has its own, in loops of their own: one that is away or
// hangs does not hold up the backups of the others.
import { setTimeout as sleep } from 'node:timers/promises';
import { pause } from '../lib/pause.ts';
import type { Fleet } from '../servers/fleet.ts';
import type { Server } from '../servers/server.ts';
import type { FleetBackups } from './fleet-backups.ts';
import { type BackupKeeper, forgetBackups, type Log, openBackupKeeper } from './keeper.ts';
import type { TellOperators } from './notices.ts';
import type { NotBackedUp } from './problem.ts';

type Deps = { backups: FleetBackups; servers: Fleet; now: () => number; tell?: TellOperators };

export type FleetKeeper = {
  run(ended: AbortSignal): Promise<void>;
  /** The keepers of the servers that are backed up, by the server's name. */
  keepers(): ReadonlyMap<string, BackupKeeper>;
  /** The servers that are not backed up, by name. */
  problems(): ReadonlyMap<string, NotBackedUp>;
};

/** How soon a server that was added gets its backups, and one that was removed loses them. */
const lookMs = 500;
/** How soon a server that could not be backed up is asked again. */
const againMs = 30_000;
const removedEveryMs = 60 * 60_000;
/** A further server that hangs must not prevent the service from stopping. */
const stopMs = 5_000;

type Keeping = { stop: () => Promise<void> };

export function openFleetKeeper({ backups, servers, now, tell = () => {} }: Deps, log: Log): FleetKeeper {
  /** They stay when the process loses its role: what they have counted is not lost. */
  const keepers = new Map<Server, BackupKeeper>();
  const kept = new Map<Server, Keeping>();
  const problems = new Map<Server, NotBackedUp>();
  const byName = <T>(of: Map<Server, T>): Map<string, T> =>
    new Map([...of].map(([{ name }, value]) => [name, value]));

  const isAway = (server: Server) =>
    servers.members().find(({ row }) => row.id === server.id)?.isAnswering === false;

  /** Returns when the server can be backed up. The first one is always tried: its failures are reported as such. */
  const untilUsable = async (server: Server, ended: AbortSignal): Promise<void> => {
    while (!server.holdsControl && !ended.aborted) {
      const problem = await backups.findProblem(server).catch((error: unknown) => {
        if (!isAway(server)) log.error({ err: error, server: server.name }, 'a server cannot be backed up');
        return undefined;
      });
      if (problem === null) break;
      if (problem) await reportProblem(server, problem);
      await pause(againMs, ended);
    }
    problems.delete(server);
  };

  const reportProblem = async (server: Server, problem: NotBackedUp): Promise<void> => {
    if (problems.get(server)?.reason !== problem.reason)
      log.warn({ server: server.name, ...problem }, 'a server is not backed up');
    problems.set(server, problem);
    // The slot may be from an earlier start with other settings.
    await forgetBackups(server).catch(() => {});
  };

  const keeperOf = (server: Server): BackupKeeper => {
    const keeper =
      keepers.get(server) ??
      openBackupKeeper({ backups: backups.of(server), server, now, tell, isAway: () => isAway(server) }, log);
    keepers.set(server, keeper);
    return keeper;
  };

  const keep = (server: Server, until: AbortSignal): Keeping => {
    const stopping = new AbortController();
    const ended = AbortSignal.any([stopping.signal, until]);
    const running = untilUsable(server, ended).then(() => keeperOf(server).run(ended));
    running.catch((error: unknown) => log.error({ err: error, server: server.name }, 'backups stopped'));
    return {
      stop: async () => {
        stopping.abort();
        const settled = running.catch(() => {});
        await (server.holdsControl
          ? settled
          : Promise.race([settled, sleep(stopMs, undefined, { ref: false })]));
      },
    };
  };
  /** Also where none runs yet: metrics have a value for the first server from the start. */
  keeperOf(servers.first);

  const end = async (server: Server, { stop }: Keeping): Promise<void> => {
    kept.delete(server);
    problems.delete(server);
    await stop();
  };

  const serversLoop = async (ended: AbortSignal): Promise<void> => {
    while (!ended.aborted) {
      const present = new Set(
        servers.members().flatMap(({ row, server }) => (row.state === 'removing' ? [] : (server ?? []))),
      );
      for (const server of present) if (!kept.has(server)) kept.set(server, keep(server, ended));
      const gone = [...kept].filter(([server]) => !present.has(server));
      await Promise.all(gone.map(([server, keeping]) => end(server, keeping)));
      for (const [server] of gone) keepers.delete(server);
      await pause(lookMs, ended);
    }
    await Promise.all([...kept].map(([server, keeping]) => end(server, keeping)));
  };

  const removedLoop = async (ended: AbortSignal): Promise<void> => {
    while (!ended.aborted) {
      await backups.pruneRemoved(ended).then(
        (clusters) => {
          if (clusters.length > 0) log.info({ clusters }, 'backups of removed servers were deleted');
        },
        (error: unknown) => {
          if (!ended.aborted)
            log.error({ err: error }, 'deleting backups of removed servers failed; retrying');
        },
      );
      await pause(removedEveryMs, ended);
    }
  };

  return {
    run: async (ended) => {
      await Promise.all([serversLoop(ended), removedLoop(ended)]);
    },
    keepers: () => byName(keepers),
    problems: () => byName(problems),
  };
}
