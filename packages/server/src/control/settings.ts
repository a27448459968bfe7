// Small facts the service keeps about itself in the control database.
import type { Queryable } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';

export type SettingName = 'installation' | 'master_key_check' | 'account_key_shown';

export async function findSetting(control: Queryable, name: SettingName): Promise<string | null> {
  const [row] = await control.query<{ value: string }>(sql`select value from settings where name = ${name}`);
  return row?.value ?? null;
}

/** The value that stands after the call: ours if there was none, else the one that was there first. */
export async function keepSetting(control: Queryable, name: SettingName, value: string): Promise<string> {
  await control.query(sql`
    insert into settings (name, value) values (${name}, ${value}) on conflict (name) do nothing`);
  return (await findSetting(control, name)) ?? value;
}
