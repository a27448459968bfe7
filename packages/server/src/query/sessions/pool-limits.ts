// How many connections this process has to a server, and how long statements wait for one.

import type { PoolLimits } from '../../postgres/pool/session-pool.ts';
import type { Fleet } from '../../servers/fleet.ts';
import { databaseSessions } from '../../settings/limits/database-sessions.ts';

/** `kept`: how many stay open. `share`: of one project. `processes`: how many share the connections of a server. */
export type Connections = Readonly<{ budget: number; kept?: number; share: number; processes?: number }>;

/** A server whose capacity is lower than the settings has that. */
export function poolLimitsOf(
  servers: Pick<Fleet, 'members'>,
  { budget, kept = budget, share, processes = 1 }: Connections,
): (serverId: number) => PoolLimits {
  return (serverId) => {
    const row = servers.members().find((member) => member.row.id === serverId)?.row;
    const own = Math.floor((row?.capacityConnections ?? Number.POSITIVE_INFINITY) / processes);
    const [used, open] = [budget, kept].map((most) => Math.max(1, Math.min(most, own))) as [number, number];
    return { budget: used, maxOpen: open, share, ...databaseSessions };
  };
}
