// What this process remembers about the contents of projects' databases, and when it must forget it.
import type { Logger } from 'pino';
import type { Feed } from '../control/change-feed.ts';
import type { ProjectSessions } from '../query/sessions/project-sessions.ts';
import type { StatementProfiles } from '../query/sessions/statement-profiles.ts';
import type { Headroom } from '../quotas/headroom.ts';
import type { Fleet } from '../servers/fleet.ts';
import type { TableCache } from './table-cache.ts';

type Deps = {
  feed: Feed;
  servers: Fleet;
  sessions: ProjectSessions;
  headroom: Headroom;
  profiles: StatementProfiles;
  tableCache: TableCache;
  log: Logger;
};

/** Returns how to forget one project, which may have another database now: after a reset or a promotion of a branch. */
export function followContents({
  feed,
  servers,
  sessions,
  headroom,
  profiles,
  tableCache,
  log,
}: Deps): (projectId: string) => void {
  const forget = (projectId: string) => {
    headroom.forget(projectId);
    profiles.forget(projectId, 'schema');
    sessions.outdate(projectId);
    tableCache.forget(projectId);
  };
  const forgetAll = () => {
    headroom.forgetAll();
    profiles.forgetAll();
    tableCache.forgetAll();
  };
  feed.listen(({ projectId }) => {
    if (projectId !== null) forget(projectId);
  });
  feed.listenToReset(forgetAll);
  servers.onPromotion((name, host) => {
    forgetAll();
    log.warn({ server: name, host }, 'a standby was promoted; connections go to it now');
  });
  return forget;
}
