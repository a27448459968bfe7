// The embedded PostgreSQL of a service that runs as a process, as its superuser sees it.

import { type Address, openDatabase } from '../../src/postgres/admin/database.ts';
import type { Sql } from '../../src/postgres/sql.ts';
import { embeddedAddress } from '../../src/servers/embedded/embedded.ts';
import { masterKeyFile, readKeyFile } from '../../src/servers/embedded/master-key.ts';

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
