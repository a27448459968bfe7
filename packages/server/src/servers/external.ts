// A PostgreSQL server that Rowhouse does not run itself. Checks its version and the privileges of our role. The start is
// refused if projects could not work there; a missing guard is reported, never skipped silently.

import { RowhouseError } from '../errors/errors.ts';
import { withoutBrackets } from '../lib/networks.ts';
import { type Address, openDatabase, type Queryable } from '../postgres/admin/database.ts';
import { Primary } from '../postgres/admin/primary.ts';
import { sql } from '../postgres/sql.ts';
import type { Host } from '../postgres/wire/server-address.ts';
import { StandbyError } from '../postgres/wire/session-errors.ts';
import { splitHosts } from '../settings/database-url.ts';
import { EngineError } from './engine-error.ts';

/** A guard that this server lacks, the risk, and the remedy. */
export type Finding = { missing: string; risk: string; remedy: string };

export const oldestMajor = 16;

/** How long a login may take if there are several hosts: the next one is tried then. */
const hostMs = 2_000;

export function parseDatabaseUrl(text: string): Address {
  const [url, ...others] = splitHosts(text) ?? [];
  if (!url) throw new EngineError('The address of the PostgreSQL server is invalid.');
  const mode = url.searchParams.get('sslmode') ?? 'prefer';
  const address: Address = {
    ...hostOf(url),
    user: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    database: decodeURIComponent(url.pathname.slice(1)) || 'postgres',
    tls: ['disable', 'allow', 'prefer'].includes(mode) ? false : { rejectUnauthorized: mode !== 'require' },
    ...(others.length > 0 && { connectMs: hostMs }),
  };
  return { ...address, primary: new Primary(address, [hostOf(url), ...others.map(hostOf)]) };
}

function hostOf({ hostname, port }: URL): Host {
  return {
    host: decodeURIComponent(withoutBrackets(hostname)),
    port: port ? Number(port) : 5432,
  };
}

/** Throws unless projects can work on this server. */
export async function checkExternal(address: Address): Promise<void> {
  const database = openDatabase(address, { max: 1 });
  const explain = (error: unknown): never => {
    if (!(error instanceof RowhouseError && error.cause instanceof StandbyError)) throw error;
    throw new EngineError('The server is a standby and does not accept writes.', {
      hint: 'Use the address of the primary, or list all hosts: postgres://user@host1:5432,host2:5432/postgres.',
    });
  };
  try {
    const [role] = await database
      .query<{
        name: string;
        super: boolean;
        createdb: boolean;
        createrole: boolean;
      }>(sql`
      select rolname as name, rolsuper as super, rolcreatedb as createdb, rolcreaterole as createrole
      from pg_roles where rolname = current_user`)
      .catch(explain);
    const [server] = await database.query<{ major: number }>(sql`
      select current_setting('server_version_num')::int / 10000 as major`);
    if (!role || !server) throw new EngineError('The PostgreSQL server does not report the current role.');
    if (server.major < oldestMajor) {
      throw new EngineError(
        `The server is PostgreSQL ${server.major}; Rowhouse needs ${oldestMajor} or newer.`,
      );
    }
    if (!role.super && !(role.createdb && role.createrole)) {
      throw new EngineError(`The role "${role.name}" cannot create databases and roles.`, {
        hint: `As a superuser: alter role "${role.name}" createdb createrole;`,
      });
    }
  } finally {
    await database.end();
  }
}

/** The guards that the server at `address` lacks, embedded or external. For the embedded one the list must be empty. */
export async function findOpenGuards(database: Queryable, address: Address): Promise<Finding[]> {
  const findings: Finding[] = [];
  const [facts] = await database.query<Facts>(sql`
    select current_user as role,
           (select rolsuper from pg_roles where rolname = current_user) as super,
           has_parameter_privilege(current_user, 'temp_file_limit', 'SET') as "tempFiles",
           has_parameter_privilege(current_user, 'log_min_messages', 'SET')
             and has_parameter_privilege(current_user, 'log_min_error_statement', 'SET') as "logs",
           pg_has_role(current_user, 'pg_read_all_stats', 'usage')
             and pg_has_role(current_user, 'pg_signal_backend', 'usage') as "watch",
           current_setting('max_locks_per_transaction')::int as locks,
           current_setting('max_connections')::int as connections,
           current_setting('max_prepared_transactions')::int as prepared,
           current_setting('fsync')::bool as fsync,
           current_setting('synchronous_standby_names') <> '' as "isSynchronous",
           current_setting('full_page_writes')::bool as "fullPageWrites",
           array(
             select datname::text from pg_database
             where (datallowconn and not datistemplate or datname = 'template1')
               -- By OID: the answer is null for a database dropped meanwhile. By name it is an error.
               and has_database_privilege('public', oid, 'connect')
               -- Access to these two is revoked at the start if our role may do so (template/public-access.ts).
               and not (datname in ('postgres', 'template1') and pg_has_role(current_user, datdba, 'member'))
           ) as "open"`);
  if (!facts) return findings;
  const report = (missing: string, risk: string, remedy: string) => findings.push({ missing, risk, remedy });
  if (!facts.super) {
    report(
      'guards inside project databases',
      'a project can take all advisory locks of the server, flood its WAL, or load languages that cannot be interrupted',
      `give Rowhouse a superuser, or: alter role "${facts.role}" superuser`,
    );
  }
  if (!facts.tempFiles) {
    report(
      'a limit on temporary files',
      'one statement can fill the disk',
      `grant set on parameter temp_file_limit to "${facts.role}"`,
    );
  }
  if (!facts.logs) {
    report(
      'quiet logs for project roles',
      "a project's errors and statements fill the server's log",
      `grant set on parameter log_min_messages, log_min_error_statement to "${facts.role}"`,
    );
  }
  if (!facts.watch) {
    report(
      'supervision of direct connections',
      'a project can exceed its limit_mb with psql or an ORM',
      `grant pg_read_all_stats, pg_signal_backend to "${facts.role}"`,
    );
  }
  for (const name of facts.open) {
    report(
      `restricted access to database "${name}"`,
      'every project role can connect to it',
      `revoke all on database "${name}" from public`,
    );
  }
  // All connections share one lock table, so the product counts.
  if (facts.locks * facts.connections < enoughLocks) {
    report(
      'enough space for locks',
      'a statement that uses thousands of tables makes statements of other projects fail',
      `alter system set max_locks_per_transaction = ${Math.ceil(enoughLocks / facts.connections)}, then restart PostgreSQL`,
    );
  }
  if (facts.prepared > 0) {
    report(
      'disabled prepared transactions',
      'a project can keep locks and dead rows indefinitely',
      'alter system set max_prepared_transactions = 0, then restart PostgreSQL',
    );
  }
  if (!facts.fsync || !facts.fullPageWrites) {
    report('durable writes', 'a crash can lose acknowledged changes', 'set fsync and full_page_writes to on');
  }
  if ((address.primary?.hosts.length ?? 1) > 1 && !facts.isSynchronous) {
    report(
      'synchronous replication',
      'a failover can lose acknowledged changes',
      'set synchronous_standby_names, with Patroni by synchronous_mode: true',
    );
  }
  return findings;
}

/** 512 for each of PostgreSQL's hundred connections by default. */
export const enoughLocks = 51_200;

type Facts = {
  role: string;
  super: boolean;
  tempFiles: boolean;
  logs: boolean;
  watch: boolean;
  locks: number;
  connections: number;
  prepared: number;
  fsync: boolean;
  isSynchronous: boolean;
  fullPageWrites: boolean;
  open: string[];
};
