// Rows that were stored, and deleted again by something other than a statement of the dump for it. PostgreSQL's own counters
// tell: a look at the tables would read them all.
import type { ImportSession } from './import-session.ts';
import type { Reporting } from './report.ts';

export class RemovedRows {
  private readonly session: ImportSession;
  private before = 0;
  /** By statements of the dump. An UPDATE deletes a row when it moves it to another partition. */
  private asked = 0;

  constructor(session: ImportSession) {
    this.session = session;
  }

  async begin(): Promise<void> {
    this.before = await this.count();
  }

  note(tag: string): void {
    this.asked += Number(/^(?:DELETE|UPDATE|MERGE) (\d+)$/.exec(tag)?.[1] ?? 0);
  }

  async report(report: Reporting): Promise<void> {
    const removed = (await this.count()) - this.before - this.asked;
    if (removed > 0) report.skipInGroup('rows that were stored', reason, 'lost', removed);
  }

  private async count(): Promise<number> {
    const [[found = null] = []] = await this.session.read(countDeleted, []);
    return Number(found ?? 0);
  }
}

const reason = 'They were deleted again: by a trigger, a rule, a function or a foreign key of the dump.';

/** The second function knows what this session has not reported to the first one yet. */
const countDeleted = `
  select coalesce(sum(pg_catalog.pg_stat_get_tuples_deleted(c.oid) + pg_catalog.pg_stat_get_xact_tuples_deleted(c.oid)), 0)
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = relnamespace
  where relkind = 'r' and relpersistence <> 't' and nspname not like 'pg\\_%' and nspname <> 'information_schema'`;
