// Reads from standbys. `Rowhouse-Max-Staleness: 5s`: the caller allows an answer from a standby whose data is at most this
// old. `Rowhouse-Min-Position`: the standby has to have everything up to there. It comes from `Rowhouse-Position`, which a
// request with Rowhouse-Max-Staleness gets with its answer if it may have changed something.
import type { IncomingHttpHeaders } from 'node:http';
import { errors } from '../../errors/errors.ts';
import type { Caller } from '../../keys/caller.ts';
import type { WalPosition } from '../../postgres/admin/wal-position.ts';
import type { ProjectLogin, Staleness } from '../../servers/databases/login.ts';
import { seesAll } from '../../tables/hidden-tables.ts';
import type { Deps } from '../deps.ts';
import type { Head } from '../http-exchange.ts';
import { tableAccessOf } from './table-access.ts';

export const stalenessHeader = 'rowhouse-max-staleness';
export const minPositionHeader = 'rowhouse-min-position';
const positionHeader = 'rowhouse-position';

const unitMs = new Map([
  ['ms', 1],
  ['s', 1_000],
  ['m', 60_000],
]);
/** The position of a change is not known: only the primary is sure to have it. */
const unknown = 'unknown';

/**
 * Not for keys with a list of tables: on a standby, a name in that list may still be the name of another table. Headers of
 * such a caller are checked even so.
 */
export function allowStaleness(
  headers: IncomingHttpHeaders,
  caller: Caller,
  login: ProjectLogin,
): ProjectLogin {
  const given = headers[stalenessHeader];
  if (given === undefined) return login;
  const staleness = readStaleness(String(given), headers[minPositionHeader], login.serverId);
  if (!staleness || tableAccessOf(caller) !== seesAll) return login;
  return { ...login, staleness };
}

/** Null: only the primary can answer. */
function readStaleness(given: string, min: unknown, serverId: number): Staleness | null {
  const [, amount, unit = ''] = /^(\d{1,6})(ms|s|m)$/.exec(given) ?? [];
  const factor = unitMs.get(unit);
  if (factor === undefined) {
    throw errors.invalidRequest([
      { path: 'Rowhouse-Max-Staleness', problem: 'must be a time such as 500ms, 5s or 1m' },
    ]);
  }
  const maxMs = Number(amount) * factor;
  if (min === undefined) return { maxMs, min: null };
  if (min === unknown) return null;
  const [, server, timeline, lsn] = /^(\d{1,9})-(\d{10})-(\d{16})$/.exec(String(min)) ?? [];
  if (lsn === undefined) {
    throw errors.invalidRequest([
      { path: 'Rowhouse-Min-Position', problem: 'must be the Rowhouse-Position of an earlier response' },
    ]);
  }
  // The project has moved: the position is one of another server.
  if (Number(server) !== serverId) return null;
  return { maxMs, min: { timeline: Number(timeline), lsn: Number(lsn) } };
}

/** Positions of one server are in the order of their texts. */
function writePosition(serverId: number, { timeline, lsn }: WalPosition): string {
  return `${serverId}-${String(timeline).padStart(10, '0')}-${String(lsn).padStart(16, '0')}`;
}

/** For a response that begins before the change is committed, or tells of a failure. */
export const unknownPosition: Head = [positionHeader, unknown];

/** After the commit. Empty if there are no standbys. */
export async function positionHeaders({ servers }: Deps, { serverId }: ProjectLogin): Promise<Head> {
  // The change is made. Whatever fails here must not make it look as if it was not.
  try {
    const { primary } = servers.of(serverId).address;
    if (!primary || primary.hosts.length === 1) return [];
    const end = await primary.end();
    return [positionHeader, end ? writePosition(serverId, end) : unknown];
  } catch {
    return unknownPosition;
  }
}
