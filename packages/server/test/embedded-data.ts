// The embedded PostgreSQL of a service that runs as a process, as its superuser sees it.
import { embeddedAddress } from '../src/engine/embedded.ts';
import { masterKeyFile, readKeyFile } from '../src/engine/master-key.ts';
import { type Address, openDatabase } from '../src/postgres/database.ts';
import type { Sql } from '../src/postgres/sql.ts';

/** After each start: PostgreSQL may have another port. */
export function addressIn(data: string, database = 'postgres'): Address {
  const file = readKeyFile(masterKeyFile(data));
  if (!('key' in file)) throw new Error('The data folder has no master key.');
  return { ...embeddedAddress(data, file.key), database };
}

export async function inControl<T extends object>(data: string, statement: Sql): Promise<T[]> {
  const control = openDatabase(addressIn(data, 'rowhouse'), { max: 1 });
  try {
    return await control.query<T>(statement);
  } finally {
    await control.end();
  }
}
