// Values that the service stores about itself in the control database, such as the installation's id.
import type { Queryable } from '../postgres/database.ts';
import { sql } from '../postgres/sql.ts';

export type SettingName = 'installation' | 'master_key_check' | 'account_key_shown';

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
