// Samples sessions that statements share without a reset, and searches them for traces that no plain statement can leave.
// The check is independent of how a statement was judged plain. Findings are counted; the count must stay 0.
import { type Session, silent } from '../../postgres/wire/session.ts';
import { isUserLogin, type ProjectLogin, roleBehind } from '../../servers/databases/login.ts';

/**
 * The names of unexpected traces, one per row. Sequences are not checked: they are reset before the first statement that
 * could see them. Undeclared settings (`app.name`) cannot be checked: PostgreSQL does not list them. But the claims of acting
 * users are asked for by their name: they are set for one transaction only. $1: the role of a user's session; null: none.
 */
const auditText = `
  select name from pg_catalog.pg_settings
  where source operator(pg_catalog.=) 'session'
    and name operator(pg_catalog.<>) all ('{default_transaction_read_only,client_connection_check_interval}'::pg_catalog.text[])
  union all
  select 'role' where current_user operator(pg_catalog.<>) coalesce($1, session_user)
  union all
  select 'claims' where coalesce(pg_catalog.current_setting('request.jwt.claims', true), '') operator(pg_catalog.<>) ''
  union all
  select 'prepared statement' from pg_catalog.pg_prepared_statements where from_sql
  union all
  select 'cursor' from pg_catalog.pg_cursors where is_holdable
  union all
  select 'channel' from pg_catalog.pg_listening_channels()
  union all
  select 'temporary table' from pg_catalog.pg_class
  where relnamespace operator(pg_catalog.=) pg_catalog.pg_my_temp_schema()`;

/** `reported`: PostgreSQL reported a changed setting. `sampled`: an audit found it. */
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
  /** Audits the session if the last audit is old enough. Sent behind earlier exchanges; no request waits for it. */
  sample(session: Session, loginAs: ProjectLogin['loginAs']): void;
};

/** The shortest interval of one session. */
const leastMs = 10_000;

/** `everyMs`: the interval for one session, if it is longer. `onTraces`: receives the findings. */
export function openAudit(
  everyMs: () => number,
  onTraces: (session: Session, traces: readonly string[]) => void,
): Audit {
  const auditedAt = new WeakMap<Session, number>();
  return {
    sample: (session, loginAs) => {
      const now = performance.now();
      const last = auditedAt.get(session);
      if (last !== undefined && (now - last < leastMs || now - last < everyMs())) return;
      auditedAt.set(session, now);
      // Most sessions live for a few statements only, so a session is first audited after some time of use.
      if (last === undefined) return;
      const traces: string[] = [];
      const role = isUserLogin(loginAs) ? roleBehind(loginAs) : null;
      session.out.parse('', auditText).bind('', [role]).execute(20).sync();
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
