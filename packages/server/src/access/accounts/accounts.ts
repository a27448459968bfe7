// Accounts, as the operator manages them. An account owns projects; what it may use is limited here.
import type { Account, ChangeAccount, ChangeOwnAccount, CreateAccount, ListAccounts } from '@rowhouse/api';
import { recordChange } from '../../control/change-feed.ts';
import type { Control } from '../../control/control.ts';
import { newId } from '../../control/new-id.ts';
import { errors } from '../../errors/errors.ts';
import { insertAccountKey } from '../../keys/account-keys.ts';
import { makeKey } from '../../keys/form.ts';
import { isState, type Queryable } from '../../postgres/admin/database.ts';
import { type Sql, sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { insertInvitation, type MailDeps, mailInvitation } from '../people/invitations.ts';

/** Made at the first start. */
const firstAccountId = 'default';

type Deps = { control: Control; limits: { keepDeletedDays: number } };

type Row = {
  id: string;
  name: string;
  maxProjects: number | null;
  maxTotalMb: number | null;
  maxRequestsPerSecond: number | null;
  isOperator: boolean;
  requiresSecondFactor: boolean;
  suspendedBecause: string | null;
  projects: number;
  totalLimitMb: number;
  createdAt: Date;
  deletedAt: Date | null;
};

const columns = sql`
  accounts.id, accounts.name, accounts.max_projects as "maxProjects", accounts.max_total_mb::float8 as "maxTotalMb",
  accounts.max_requests_per_second as "maxRequestsPerSecond", accounts.is_operator as "isOperator",
  accounts.requires_second_factor as "requiresSecondFactor", accounts.suspended_because as "suspendedBecause",
  accounts.created_at as "createdAt", accounts.deleted_at as "deletedAt", used.projects, used.total::float8 as "totalLimitMb"`;
const used = sql`
  cross join lateral (
    select count(*)::int as projects, coalesce(sum(limit_mb), 0) as total
    from projects where account_id = accounts.id and deleted_at is null) as used`;

export async function listAccounts(
  { control, limits }: Deps,
  { status = 'live', limit = 50, page = 1, search }: ListAccounts,
): Promise<{ accounts: Account[]; page: number; limit: number; has_more: boolean }> {
  const wanted = status === 'live' ? sql`deleted_at is null` : sql`deleted_at is not null`;
  const part = search === undefined ? null : `%${search.replace(/[\\%_]/g, '\\$&')}%`;
  // The ids first: PostgreSQL computes the columns of rows that OFFSET skips, too.
  const rows = await control.query<Row>(sql`
    with page as materialized (
      select id from accounts
      where ${wanted} and (${part}::text is null or name ilike ${part} or id = ${search ?? null})
      order by created_at, id limit ${limit + 1} offset ${(page - 1) * limit}
    )
    select ${columns} from accounts ${used} where accounts.id in (select id from page)
    order by accounts.created_at, accounts.id`);
  const accounts = rows.slice(0, limit).map((row) => toAccount(row, limits.keepDeletedDays));
  return { accounts, page, limit, has_more: rows.length > limit };
}

export async function getAccount(
  { control, limits }: Pick<Deps, 'limits'> & { control: Queryable },
  id: string,
): Promise<Account> {
  const [row] = await control.query<Row>(
    sql`select ${columns} from accounts ${used} where accounts.id = ${known(id)}`,
  );
  if (!row) throw errors.accountNotFound(id);
  return toAccount(row, limits.keepDeletedDays);
}

/**
 * The new account has one key, with the role of its owner. It invites the first owner, so that the invitation ends with it. All of it
 * or nothing: an account whose key nobody has seen would be lost. `link`: of the invitation, unless it was mailed.
 */
export async function createAccount(
  deps: Deps & MailDeps,
  { owner_email: email, ...input }: CreateAccount,
): Promise<{ account: Account; apiKey: string; link: string | null }> {
  const id = newId();
  const apiKey = makeKey('rh_acct_');
  const { account, invited } = await withFreeName(input.name, () =>
    deps.control.transaction(async (transaction) => {
      await transaction.query(sql`
        insert into accounts (id, name, max_projects, max_total_mb, max_requests_per_second)
        values (${id}, ${input.name.trim()}, ${input.max_projects ?? null}, ${input.max_total_mb ?? null},
                ${input.max_requests_per_second ?? null})`);
      const first = { accountId: id, name: 'account key', role: 'owner', apiKey } as const;
      const { id: keyId } = await insertAccountKey(transaction, first);
      const owner = { accountId: id, role: 'owner', keyId, person: null } as const;
      return {
        invited:
          email === undefined
            ? null
            : await insertInvitation(deps, transaction, owner, { email, role: 'owner' }),
        account: await getAccount({ control: transaction, limits: deps.limits }, id),
      };
    }),
  );
  return { account, apiKey, link: invited && (await mailInvitation(deps, invited)) };
}

export async function changeAccount(
  deps: Deps,
  id: string,
  input: ChangeAccount & ChangeOwnAccount,
): Promise<Account> {
  const changes: Sql[] = [];
  if (input.name !== undefined) changes.push(sql`name = ${input.name.trim()}`);
  if (input.max_projects !== undefined) changes.push(sql`max_projects = ${input.max_projects}::int`);
  if (input.max_total_mb !== undefined) changes.push(sql`max_total_mb = ${input.max_total_mb}::bigint`);
  if (input.max_requests_per_second !== undefined)
    changes.push(sql`max_requests_per_second = ${input.max_requests_per_second}::int`);
  if (input.is_operator !== undefined) changes.push(sql`is_operator = ${input.is_operator}`);
  if (input.requires_second_factor !== undefined)
    changes.push(sql`requires_second_factor = ${input.requires_second_factor}`);
  if (input.suspended_because !== undefined) {
    const reason = input.suspended_because?.trim() ?? null;
    changes.push(sql`suspended_because = ${reason}::text`);
    changes.push(
      sql`suspended_at = case when ${reason}::text is null then null else coalesce(suspended_at, now()) end`,
    );
  }
  const [row] = await withFreeName(input.name ?? '', () =>
    deps.control.change<{ id: string }>(sql`
      with change as (${recordChange({ accountId: id })})
      update accounts set ${changes.reduce((all, one) => sql`${all}, ${one}`)} where id = ${known(id)} and deleted_at is null returning id`),
  );
  if (!row) throw errors.accountNotFound(id);
  return getAccount(deps, id);
}

/** Its projects are deleted with it: both can be undeleted for some days. */
export async function deleteAccount(
  deps: Deps,
  id: string,
): Promise<{ account: Account; projects: string[] }> {
  if (id === firstAccountId)
    throw errors.conflict('The first account cannot be deleted.', 'Delete its projects instead.');
  const projects = await deps.control.transaction(async (transaction) => {
    const [row] = await transaction.query(sql`
      update accounts set deleted_at = now() where id = ${known(id)} and deleted_at is null returning id`);
    if (!row) throw errors.accountNotFound(id);
    const deleted = await transaction.query<{ id: string }>(sql`
      update projects set deleted_at = now() where account_id = ${id} and deleted_at is null returning id`);
    await noteChanges(transaction, id, deleted);
    return deleted.map((project) => project.id);
  });
  return { account: await getAccount(deps, id), projects };
}

/** With the projects that were deleted together with it. */
export async function undeleteAccount(
  deps: Deps,
  id: string,
): Promise<{ account: Account; projects: string[] }> {
  const { keepDeletedDays } = deps.limits;
  const projects = await deps.control.transaction(async (transaction) => {
    const [row] = await transaction.query<{ deletedAt: string }>(sql`
      with old as (select id, deleted_at from accounts where id = ${known(id)} for update)
      update accounts set deleted_at = null from old
      where accounts.id = old.id and old.deleted_at > now() - make_interval(days => ${keepDeletedDays})
      returning old.deleted_at::text as "deletedAt"`);
    if (!row)
      throw errors.conflict(
        'This account is not deleted, or it can no longer be restored.',
        'See its status with GET /api/dbaas/v2/accounts/:id.',
      );
    const undeleted = await transaction.query<{ id: string }>(sql`
      update projects set deleted_at = null where account_id = ${id} and deleted_at = ${row.deletedAt}::timestamptz returning id`);
    await noteChanges(transaction, id, undeleted);
    return undeleted.map((project) => project.id);
  });
  return { account: await getAccount(deps, id), projects };
}

async function noteChanges(
  transaction: Queryable,
  accountId: string,
  projects: readonly { id: string }[],
): Promise<void> {
  await transaction.query(recordChange({ accountId }));
  await transaction.query(sql`
    insert into changes (project_id) select unnest(${projects.map(({ id }) => id)}::text[])`);
}

/** Called by the background work: an account whose projects are dropped goes with its keys. */
export async function dropDeletedAccounts({ control, limits }: Deps): Promise<void> {
  await control.query(sql`
    with gone as (
      select id from accounts
      where deleted_at < now() - make_interval(days => ${limits.keepDeletedDays})
        and not exists (select from projects where projects.account_id = accounts.id)
      limit 20
    ),
    keys as (delete from keys where account_id in (select id from gone))
    delete from accounts where id in (select id from gone)`);
}

function toAccount(row: Row, keepDeletedDays: number): Account {
  const { deletedAt, suspendedBecause } = row;
  return {
    id: row.id,
    name: row.name,
    status: deletedAt ? 'deleted' : suspendedBecause === null ? 'active' : 'suspended',
    suspended_because: suspendedBecause,
    max_projects: row.maxProjects,
    max_total_mb: row.maxTotalMb,
    max_requests_per_second: row.maxRequestsPerSecond,
    is_operator: row.isOperator,
    requires_second_factor: row.requiresSecondFactor,
    projects: row.projects,
    total_limit_mb: row.totalLimitMb,
    created_at: row.createdAt.toISOString(),
    ...(deletedAt && {
      deleted_at: deletedAt.toISOString(),
      dropped_after: new Date(deletedAt.getTime() + keepDeletedDays * 86_400_000).toISOString(),
    }),
  };
}

/** PostgreSQL stores no NUL character: what has one is not found. */
function known(id: string): string {
  return id.includes('\0') ? '' : id;
}

async function withFreeName<T>(name: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    if (!isState(error, sqlstate.uniqueViolation) || error.constraint !== 'accounts_name_key') throw error;
    throw errors.conflict(`There is already an account "${name.trim()}".`, 'Choose another name.');
  }
}
