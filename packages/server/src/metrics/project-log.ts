// What a project's owner wants to know of its last requests: those that failed, those that were slow, and how many there
// were. A statement is slow beyond slowMs in settings/limits/requests.ts. Kept in the memory of this process, bounded for each project and for all together. It holds no values: no
// parameters, no query strings, no messages that could quote a value.

import type { LoggedRequest, RequestCounts } from '@rowhouse/api';
import type { RowhouseError } from '../errors/errors.ts';
import { wasRaised } from '../query/exchange/failures.ts';
import { slowMs } from '../settings/limits/requests.ts';

export type NotedRequest = Readonly<{
  requestId: string;
  method: string;
  /** The pattern of the route. */
  route: string;
  path: string;
  status: number;
  ms: number;
  keyId: string | undefined;
  projectId: string | undefined;
  failure: RowhouseError | null;
  /** The SQL, if the caller sent some. */
  statement: string | (() => string) | null;
}>;

export type ProjectLog = {
  note(request: NotedRequest): void;
  read(projectId: string): { failures: LoggedRequest[]; slow: LoggedRequest[]; requests: RequestCounts[] };
  readonly since: number;
};

const kept = 50;
const maxMinutes = 60;
const [maxStatement, maxMessage, maxPath] = [1_000, 500, 200];
/** About 80 MB, if all are as long as they can be, in a script of two bytes a character. */
const defaults = { maxProjects: 5_000, maxEntries: 20_000 };

type Entries = { failures: LoggedRequest[]; slow: LoggedRequest[]; minutes: Minutes };

export function openProjectLog(now: () => number, limits = defaults): ProjectLog {
  /** In the order of the last minute in which they were used: the first is forgotten first. */
  const projects = new Map<string, Entries>();
  let entries = 0;

  const forget = (projectId: string) => {
    const known = projects.get(projectId);
    if (known) entries -= known.failures.length + known.slow.length;
    projects.delete(projectId);
  };
  const forgetOldest = (except: string) => {
    for (const [projectId, known] of projects) {
      if (projects.size <= limits.maxProjects && entries <= limits.maxEntries) return;
      if (projectId === except) continue;
      if (projects.size > limits.maxProjects) forget(projectId);
      // The counts take no room that others need.
      else {
        entries -= known.failures.length + known.slow.length;
        [known.failures, known.slow] = [[], []];
      }
    }
  };
  const of = (projectId: string): Entries => {
    const known = projects.get(projectId);
    if (known) return known;
    const created = { failures: [], slow: [], minutes: new Minutes() };
    projects.set(projectId, created);
    if (projects.size > limits.maxProjects) forgetOldest(projectId);
    return created;
  };
  const add = (projectId: string, list: LoggedRequest[], entry: LoggedRequest) => {
    list.push(entry);
    entries++;
    if (list.length > kept) {
      list.shift();
      entries--;
    }
    forgetOldest(projectId);
  };

  return {
    since: now(),
    note: (request) => {
      const { projectId, status, ms, route } = request;
      if (projectId === undefined) return;
      const known = of(projectId);
      const { failures, slow, minutes } = known;
      const isSlow = ms > slowMs && isStatement(route);
      if (minutes.count(now(), status >= 400 || request.failure !== null, isSlow)) {
        projects.delete(projectId);
        projects.set(projectId, known);
      }
      if (status < 400 && !isSlow && request.failure === null) return;
      const entry = toEntry(request, now());
      if (status >= 400 || request.failure !== null) add(projectId, failures, entry);
      if (isSlow) add(projectId, slow, entry);
    },
    read: (projectId) => {
      const known = projects.get(projectId);
      if (!known) return { failures: [], slow: [], requests: [] };
      const { failures, slow, minutes } = known;
      return { failures: failures.toReversed(), slow: slow.toReversed(), requests: minutes.read(now()) };
    },
  };
}

/** Work that always takes long, such as an export, is not a slow statement. */
function isStatement(route: string): boolean {
  return route.endsWith('/query') || route.endsWith('/batch') || route.endsWith('/tables/:table');
}

function toEntry(request: NotedRequest, at: number): LoggedRequest {
  const { requestId, method, path, status, ms, keyId, failure, statement } = request;
  const text = typeof statement === 'function' ? statement() : statement;
  return {
    at: new Date(at).toISOString(),
    request_id: requestId,
    method,
    path: cut(path.split('?')[0] ?? '', maxPath),
    status,
    duration_ms: Math.round(ms * 100) / 100,
    key_id: keyId ?? null,
    code: failure?.code ?? null,
    sql_state: failure?.sql?.state ?? null,
    message: failure && isOpen(failure) ? cut(failure.message, maxMessage) : null,
    statement: text === null ? null : cut(text, maxStatement),
  };
}

/** SQLSTATE classes whose messages name objects and conditions, never values. Code of the project can raise any of them. */
const withoutValues = /^(0A|25|40|42|53|54|55|57)/;

function isOpen(error: RowhouseError): boolean {
  if (wasRaised(error)) return false;
  return error.sql?.state === undefined ? error.status < 500 : withoutValues.test(error.sql.state);
}

/** A copy: a slice would keep the whole text, of up to 32 MB, in memory. */
function cut(text: string, length: number): string {
  const copy = Buffer.from(text.slice(0, length)).toString();
  return text.length > length ? `${copy}…` : copy;
}

/** Counts by minute, of the last hour. */
class Minutes {
  /** For each place of the ring: the minute, requests, failures, slow ones. */
  private readonly counts = new Float64Array(maxMinutes * 4);

  /** Returns whether this is the first request of its minute. */
  count(at: number, hasFailed: boolean, isSlow: boolean): boolean {
    const minute = Math.floor(at / 60_000);
    const { counts } = this;
    const place = (minute % maxMinutes) * 4;
    const isFirst = counts[place] !== minute;
    if (isFirst) counts.fill(0, place, place + 4)[place] = minute;
    counts[place + 1] = (counts[place + 1] as number) + 1;
    if (hasFailed) counts[place + 2] = (counts[place + 2] as number) + 1;
    if (isSlow) counts[place + 3] = (counts[place + 3] as number) + 1;
    return isFirst;
  }

  /** Oldest first, without those in which nothing happened. */
  read(at: number): RequestCounts[] {
    const now = Math.floor(at / 60_000);
    const found: RequestCounts[] = [];
    for (let minute = now - maxMinutes + 1; minute <= now; minute++) {
      const place = (minute % maxMinutes) * 4;
      const [noted, requests = 0, failures = 0, slow = 0] = this.counts.subarray(place, place + 4);
      if (noted === minute)
        found.push({ at: new Date(minute * 60_000).toISOString(), requests, failures, slow });
    }
    return found;
  }
}
