// Values that the service stores about itself in the control database, such as the installation's id.
import { type Address, openDatabase, type Queryable } from '../postgres/admin/database.ts';
import { sql } from '../postgres/sql.ts';
import { openControl } from './control.ts';

export type SettingName =
  | 'installation'
  | 'master_key_check'
  | 'account_key_shown'
  | ServerSetting
  | `${ServerSetting}:${number}`
  | 'drill_problems'
  /** How long entries of the audit log are kept. */
  | 'audit_days'
  /** JSON. What is stored of them is deleted later (backups/removed.ts). */
  | 'removed_servers'
  /** JSON. The id of the repository at each place where backups were stored (backups/repository/identity.ts). */
  | 'backup_repositories'
  /** The name of the first server, if it is one that was adopted. */
  | 'first_server';

/** One for each server. */
export type ServerSetting =
  | 'backup_taken_at'
  /** JSON. Why WAL, or base backups, cannot be stored now. Empty: they can. */
  | 'wal_problem'
  | 'backup_problem'
  | 'backup_verified_at'
  | 'drilled_at'
  | 'drill_tried_at'
  | 'drilled_project';

/** Those of the first server have no number: it was the only one that was backed up in earlier versions. */
export function settingOf(
  name: ServerSetting,
  { id, holdsControl }: Readonly<{ id: number; holdsControl: boolean }>,
): SettingName {
  return holdsControl ? name : `${name}:${id}`;
}

export async function findSetting(control: Queryable, name: SettingName): Promise<string | null> {
  const [row] = await control.query<{ value: string }>(sql`select value from settings where name = ${name}`);
  return row?.value ?? null;
}

/** Stores the value unless there is one already. Returns the stored value. */
export async function keepSetting(control: Queryable, name: SettingName, value: string): Promise<string> {
  await control.query(sql`
    insert into settings (name, value) values (${name}, ${value}) on conflict (name) do nothing`);
  return (await findSetting(control, name)) ?? value;
}

/** Stores the value in place of an earlier one. The same value again changes nothing: an idle service commits nothing. */
export async function putSetting(control: Queryable, name: SettingName, value: string): Promise<void> {
  await control.query(sql`
    insert into settings (name, value)
    select ${name}::text, ${value}::text
    where not exists (select from settings where name = ${name} and value = ${value})
    on conflict (name) do update set value = excluded.value`);
}

/** Before the control database is prepared: null also where it does not exist yet, or was only begun. Changes nothing. */
export async function peekSetting(
  address: Address,
  controlDatabase: string,
  name: SettingName,
): Promise<string | null> {
  const maintenance = openDatabase(address, { max: 1 });
  try {
    const [made] = await maintenance.query(
      sql`select 1 from pg_database where datname = ${controlDatabase} and datallowconn`,
    );
    if (!made) return null;
  } finally {
    await maintenance.end();
  }
  const control = openControl(address, controlDatabase);
  try {
    const [known] = await control.query(sql`select 1 where to_regclass('settings') is not null`);
    return known ? await findSetting(control, name) : null;
  } finally {
    await control.end();
  }
}
