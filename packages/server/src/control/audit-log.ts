// The audit log: who did what, with which outcome. Entries are only added. No secret may get into it: http/request/audit-entries.ts
// names the fields of requests that may. A new column needs a migration in packages/server/migrations/control, then a line in the
// insert and in the select below, and a field in packages/api/src/audit.ts.
import type { AuditEntry, ListAudit } from '@rowhouse/api';
import { errors } from '../errors/errors.ts';
import { withoutSecrets } from '../lib/log.ts';
import { sql } from '../postgres/sql.ts';
import type { Control } from './control.ts';
import { putSetting } from './settings.ts';

export type NewEntry = Readonly<{
  accountId: string | null;
  actor: { kind: 'person' | 'key' | 'operator' | 'nobody'; id: string | null; name: string | null };
  address: string;
  action: string;
  project: { id: string | null; slug: string } | null;
  target: string | null;
  outcome: 'done' | 'refused' | 'failed';
  error: string | null;
  details: Record<string, unknown> | null;
  requestId: string;
}>;

const maxTarget = 300;
const maxDetails = 2_000;

export async function append(control: Control, entry: NewEntry): Promise<void> {
  const { accountId, actor, address, action, project, target, outcome, error, requestId } = entry;
  await control.query(sql`
    insert into audit_log (account_id, actor_kind, actor_id, actor_name, address, action, project_id, project_slug,
                           target, outcome, error, details, request_id)
    values (${accountId}, ${actor.kind}, ${actor.id}, ${actor.name}, ${address}, ${action}, ${project?.id ?? null},
            ${project === null ? null : clean(project.slug)}, ${target === null ? null : clean(target)}, ${outcome}, ${error},
            ${detailsOf(entry.details)}::text::jsonb, ${requestId})`);
}

/** PostgreSQL stores no NUL character. A key that was pasted where an id belongs is no id. */
function clean(text: string): string {
  return withoutSecrets(text.replaceAll('\0', '')).slice(0, maxTarget);
}

function detailsOf(details: Record<string, unknown> | null): string | null {
  if (details === null || Object.keys(details).length === 0) return null;
  const text = JSON.stringify(details, (_name, value) => (typeof value === 'string' ? clean(value) : value));
  if (text.length <= maxDetails) return text;
  const short = Object.entries(details).filter(([, value]) => JSON.stringify(value).length < maxTarget);
  return detailsOf(Object.fromEntries(short.slice(0, 5)));
}

type Row = {
  id: string;
  at: Date;
  accountId: string | null;
  actorKind: AuditEntry['actor']['kind'];
  actorId: string | null;
  actorName: string | null;
  address: string;
  action: string;
  project: string | null;
  target: string | null;
  outcome: AuditEntry['outcome'];
  error: string | null;
  details: Record<string, unknown> | null;
  requestId: string;
};

/** Newest first. `accountId` undefined: of all accounts, and of the installation. */
export async function listAudit(
  control: Control,
  accountId: string | undefined,
  { from, to, action, actor, project, outcome, limit = 100, cursor }: ListAudit,
): Promise<{ entries: AuditEntry[]; cursor: string | null }> {
  const before = cursor === undefined ? null : readCursor(cursor);
  const given = <T>(value: T | undefined): T | string | null =>
    typeof value === 'string' ? value.replaceAll('\0', '\ufffd') : (value ?? null);
  const rows = await control.query<Row>(sql`
    select id::text as id, at, account_id as "accountId", actor_kind as "actorKind", actor_id as "actorId",
           actor_name as "actorName", address, action, project_slug as project, target, outcome, error, details,
           request_id as "requestId"
    from audit_log
    where (${given(accountId)}::text is null or account_id = ${given(accountId)})
      and (${before}::bigint is null or id < ${before}::bigint)
      and (${given(from)}::text is null or at >= ${given(from)}::text::timestamptz)
      and (${given(to)}::text is null or at < ${given(to)}::text::timestamptz)
      and (${given(action)}::text is null or action = ${given(action)} or starts_with(action, ${given(action)} || '.'))
      and (${given(actor)}::text is null or actor_id = ${given(actor)} or actor_name = ${given(actor)})
      and (${given(project)}::text is null or project_slug = ${given(project)})
      and (${given(outcome)}::text is null or outcome = ${given(outcome)})
    -- The number, not the text of the same name in the select list: 10 is newer than 9.
    order by audit_log.id desc limit ${limit + 1}`);
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return {
    entries: page.map(toEntry),
    cursor: rows.length > limit && last ? Buffer.from(last.id).toString('base64url') : null,
  };
}

function readCursor(cursor: string): string {
  const id = Buffer.from(cursor, 'base64url').toString('latin1');
  if (!/^[1-9][0-9]{0,17}$/.test(id))
    throw errors.invalidRequest([{ path: 'cursor', problem: 'must be the cursor of an earlier response' }]);
  return id;
}

function toEntry(row: Row): AuditEntry {
  return {
    id: row.id,
    at: row.at.toISOString(),
    account: row.accountId,
    actor: { kind: row.actorKind, id: row.actorId, name: row.actorName },
    address: row.address,
    action: row.action,
    project: row.project,
    target: row.target,
    outcome: row.outcome,
    error: row.error,
    details: row.details,
    request_id: row.requestId,
  };
}

/** Called by the background work. The trigger of the table allows only what is older than the setting says. */
export async function forgetOldAudit(control: Control, days: number): Promise<void> {
  await putSetting(control, 'audit_days', String(days));
  await control.query(sql`
    delete from audit_log where id in (
      select id from audit_log where at < now() - make_interval(days => ${days}) - interval '1 minute' limit 10000)`);
}
