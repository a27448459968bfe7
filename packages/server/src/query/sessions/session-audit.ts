// A sampled look into sessions that statements share without a reset in between: is there anything in them that no
// statement taken for plain can have left? It does not depend on how that was judged. What it finds is counted, and must
// stay 0.
import { type Session, silent } from '../../postgres/session.ts';

/**
 * The names of what should not be there, one a row. Sequences are cleaned before the first who could see them. Settings
 * that nobody has declared (`app.name`) are shown by PostgreSQL to nobody.
 */
const auditText = `
  select name from pg_catalog.pg_settings
  where source operator(pg_catalog.=) 'session' and name operator(pg_catalog.<>) 'default_transaction_read_only'
  union all
  select 'role' where current_user operator(pg_catalog.<>) session_user
  union all
  select 'prepared statement' from pg_catalog.pg_prepared_statements where from_sql
  union all
  select 'cursor' from pg_catalog.pg_cursors where is_holdable
  union all
  select 'channel' from pg_catalog.pg_listening_channels()
  union all
  select 'temporary table' from pg_catalog.pg_class
  where relnamespace operator(pg_catalog.=) pg_catalog.pg_my_temp_schema()`;

/** `reported`: PostgreSQL told that a setting had changed. `sampled`: it was found by a look. */
export type TraceSource = 'reported' | 'sampled';

export function countTraces() {
  const counts: Record<TraceSource, number> = { reported: 0, sampled: 0 };
  return {
    count: (source: TraceSource) => {
      counts[source]++;
    },
    counts: () => counts,
  };
}

export type Audit = {
  /** Looks at it if that has not been done for some time. Goes behind what was sent; nobody waits for the answer. */
  sample(session: Session): void;
};

/** `everyMs`: for each session. `onTraces`: what was found. */
export function openAudit(
  everyMs: () => number,
  onTraces: (session: Session, traces: readonly string[]) => void,
): Audit {
  const auditedAt = new WeakMap<Session, number>();
  return {
    sample: (session) => {
      const now = performance.now();
      const last = auditedAt.get(session);
      if (last !== undefined && now - last < everyMs()) return;
      auditedAt.set(session, now);
      // Most live for a few statements only: the first look comes when it has been used for a while.
      if (last === undefined) return;
      const traces: string[] = [];
      session.out.parse('', auditText).bind('', []).execute(20).sync();
      session.send({
        ...silent,
        row: (bytes, start) => {
          traces.push(bytes.toString('utf8', start + 6, start + 6 + bytes.readInt32BE(start + 2)));
        },
        error: () => session.destroy(),
        ready: () => {
          if (traces.length > 0) onTraces(session, traces);
        },
      });
    },
  };
}
