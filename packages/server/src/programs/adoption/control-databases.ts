// Control databases on a server, by name: the draft that is filled, and its exchange for the one that counts.
import { prepareControl } from '../../control/control.ts';
import { peekSetting } from '../../control/settings.ts';
import { type Address, isState, openDatabase } from '../../postgres/admin/database.ts';
import { sql } from '../../postgres/sql.ts';
import { sqlstate } from '../../postgres/sqlstate.ts';
import { EngineError } from '../../servers/engine-error.ts';

export type ControlDatabases = {
  exists(name: string): Promise<boolean>;
  /** The installation to which the database belongs. null: it does not exist, or is not complete. */
  installationOf(name: string): Promise<string | null>;
  /** An empty one with all migrations. A draft that an interrupted attempt has left is dropped. */
  makeDraft(name: string): Promise<void>;
  /** All or none of them. PostgreSQL renames no database that has a session. */
  rename(changes: readonly (readonly [from: string, to: string])[]): Promise<void>;
  end(): Promise<void>;
};

/** Its own name for each installation, so that a draft that is there already is ours. */
export function draftOf(installation: string): string {
  return `rowhouse_draft_${installation.slice(0, 8)}`;
}

/** While its contents go back to the data folder, no service can start on it. */
export function leavingOf(installation: string): string {
  return `rowhouse_leaving_${installation.slice(0, 8)}`;
}

/** No longer used. Dropping it is left to the operator. */
export function retiredOf(installation: string): string {
  return `${leavingOf(installation)}_${stampNow()}`;
}

export function stampNow(): string {
  return new Date().toISOString().replace(/\D/g, '').slice(0, 14);
}

export function openControlDatabases(address: Address): ControlDatabases {
  const maintenance = openDatabase(address, { max: 1 });
  return {
    exists: async (name) =>
      (await maintenance.query(sql`select from pg_database where datname = ${name}`)).length > 0,
    installationOf: (name) => peekSetting(address, name, 'installation'),
    makeDraft: async (name) => {
      await maintenance.query(sql`drop database if exists ${sql.id(name)} with (force)`);
      await prepareControl(address, name);
    },
    rename: async (changes) => {
      try {
        await maintenance.transaction(async (transaction) => {
          for (const [from, to] of changes)
            await transaction.query(sql`alter database ${sql.id(from)} rename to ${sql.id(to)}`);
        });
      } catch (error) {
        if (!isState(error, sqlstate.objectInUse)) throw error;
        throw new EngineError('The control database is in use: a service is running on it.', {
          hint: 'Stop every process of the service, then run the command again.',
        });
      }
    },
    end: () => maintenance.end(),
  };
}
